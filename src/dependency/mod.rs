//! What every call to the outside shares: one HTTP client per dependency, with its time-outs,
//! size cap, bounded concurrency, breaker and metrics, and the rules for the URLs it may call.
//!
//! - [`Http`] makes calls. A call waits for a place among the dependency's calls (bounded, else
//!   [`CallError::Shed`]), is sent, and its body is read up to the cap, all within one time-out.
//!   Redirects are not followed, proxy variables not read, nothing is decompressed.
//! - [`check_url`] says which URLs may be configured, [`UrlTemplate`] fills variables in.
//!
//! [`Guard`] is what stands before every call, HTTP or not: time-out, places, circuit breaker,
//! retry budget, metrics. [`Http`] has one; an adapter that speaks another protocol makes its own.

mod breaker;
mod clients;
mod error;
mod gate;
mod guard;
mod http;
mod response;
#[cfg(test)]
pub(crate) mod stub;
mod template;
#[cfg(test)]
mod tests;
mod url;

pub use breaker::BreakerConfig;
pub use clients::Clients;
pub use error::CallError;
pub use guard::{About, Answer, Guard, GuardOptions};
pub use http::{BuildError, Http, HttpOptions, bearer};
pub use response::Response;
pub use template::{TemplateError, UrlTemplate};
pub use url::{InsecureUrl, UrlError, check_url, is_loopback};
