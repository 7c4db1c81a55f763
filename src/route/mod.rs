//! Request → the route it falls under, and what that route needs to know of it. Pure: no I/O.
//!
//! - [`Table::find`] reads target and host, and finds the first route of the file that matches.
//! - [`Matched::credential`] is what must be verified, [`Matched::facts`] what the policy is told,
//!   [`Matched::strip`] what an allow removes.
//!
//! Invariant: the backend gets the raw target, so a target that two readers could read
//! differently never reaches a route.

mod attributes;
mod body;
mod config;
mod connection;
mod credential;
mod facts;
mod host;
mod json;
mod limits;
mod normalise;
mod pattern;
mod query;
#[expect(clippy::module_inception, reason = "the room's central value is the route")]
mod route;
mod strip;
mod table;
mod target;
mod trie;
mod validate;

pub use attributes::CORE as CORE_MEMBERS;
pub use body::{Read as BodyRead, read as read_body};
pub use config::{
    Access, ActionConfig, AttributeConfig, BodyRule, Forwarded, Kind, MatchConfig, Names,
    OpenConfig, PathConfig, PeerField, RouteConfig, RoutesConfig, Spelling, Use, problems,
};
pub use credential::{Authorization, authorization};
pub use facts::Facts;
pub use limits::{DEPTH as MAX_DEPTH, MEMBERS as MAX_MEMBERS, STRING_BYTES as MAX_STRING};
pub use pattern::is_identifier;
pub use route::Route;
pub use table::{Matched, Table};
pub use validate::open_dates;

#[cfg(test)]
mod tests;
