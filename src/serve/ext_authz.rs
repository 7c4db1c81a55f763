//! The check door: `envoy.service.auth.v3.Authorization/Check`, health and reflection.
//!
//! The Check's own messages are framed here and not by a generated server: what cannot be
//! decoded, is too large or comes late must reach our handler, because each is answered with a
//! denial and audited (a gRPC error would be Envoy's `status_on_error`, or an allow under
//! `failure_mode_allow`).

mod body;
mod message;
mod metadata;
mod request;
mod response;
mod service;
mod wire;
mod write;

pub(super) use response::www_authenticate;
pub use service::answer;
pub(super) use service::{Health, Service};
