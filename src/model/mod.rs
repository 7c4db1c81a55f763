//! Plain values that the stages hand to one another. Nothing here does I/O or reads a clock.

mod decision;
mod digest;
mod headers;
mod id;
mod identity;
mod input;
mod moment;
mod negotiate;
mod outcome;
mod pairs;
mod places;
mod problem;
mod reason;
mod request;
mod secret;
mod strict;
mod timeline;
mod units;

pub use decision::{Decision, Evaluation, Extras, HeaderValue, Stamp, Verdict};
pub use digest::{Digest, Fragment, Hasher};
pub use id::{DecisionId, Ids};
pub use identity::{Asker, Demand, Grant, Identity, Method, UserContext, VerifiedToken};
pub use input::{Door, Input, Parts};
pub use moment::Moment;
pub use outcome::{
    Allow, BodyForm, CacheState, Challenge, Deny, Outcome, Record, StageTime, Strip, Unavailable,
};
pub use pairs::{Pair, Pairs};
pub use places::{Place, Places};
pub use problem::Problem;
pub use reason::{Class, Code, Reason, Refusal};
pub use request::{Body, Header, Headers, Peer, Request};
pub use secret::Secret;
pub use strict::{NotStrict, strict_json};
pub use timeline::{Passed, Timeline};
pub use units::{HumanDuration, HumanSize};

/// A boxed future, for the async side of a stage's port.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
