//! The service of a control connection. One line at info for each call: who, what, how it ended.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::messages::invalidate_request::Target;
use super::messages::{
    Door, InvalidateRequest, InvalidateResponse, Part, ReloadRequest, ReloadResponse,
    SetLogLevelRequest, SetLogLevelResponse, StatusRequest, StatusResponse,
};
use super::{Invalidation, MAX_MESSAGE, Operate};
use crate::model::{BoxFuture, Digest};
use crate::serve::connection::Peer;
use crate::serve::ready::Ready;

/// Answers every call of the control door.
#[derive(Clone)]
pub(crate) struct Service(Arc<Inner>);

struct Inner {
    operate: Arc<dyn Operate>,
    ready: Arc<Ready>,
    doors: Vec<Door>,
}

impl Service {
    /// Operates `operate`; `doors` are shown.
    pub(crate) fn new(operate: Arc<dyn Operate>, ready: Arc<Ready>, doors: Vec<Door>) -> Self {
        Self(Arc::new(Inner { operate, ready, doors }))
    }

    async fn answer(self, call: Request<Incoming>) -> Response<Body> {
        let peer = call.extensions().get::<Peer>().map_or("unknown", |peer| &*peer.0).to_owned();
        let inner = self.0;
        match call.uri().path() {
            "/portcullis.control.v1.Control/Invalidate" => {
                unary(call, |request| async move { inner.invalidate(request, &peer).await }).await
            }
            "/portcullis.control.v1.Control/Reload" => {
                unary(call, |ReloadRequest {}| async move {
                    let answer: ReloadResponse = inner.operate.reload().await;
                    tracing::info!(call = "reload", peer, applied = answer.applied, "control");
                    Ok(answer)
                })
                .await
            }
            "/portcullis.control.v1.Control/Status" => {
                unary(call, |StatusRequest {}| async move {
                    tracing::info!(call = "status", peer, "control");
                    Ok(inner.status())
                })
                .await
            }
            "/portcullis.control.v1.Control/SetLogLevel" => {
                unary(call, |request| async move { inner.log(&request, &peer) }).await
            }
            _ => Status::unimplemented("there is no such method").into_http(),
        }
    }
}

impl Inner {
    async fn invalidate(
        &self,
        request: InvalidateRequest,
        peer: &str,
    ) -> Result<InvalidateResponse, Status> {
        let what = read(request)?;
        // Whom it is about is no matter of the log; names of the configuration are.
        let (kind, name) = match &what {
            Invalidation::User { .. } => ("user", ""),
            Invalidation::Token(_) => ("token", ""),
            Invalidation::Issuer(name) => ("issuer", name.as_str()),
            Invalidation::Route(name) => ("route", name.as_str()),
            Invalidation::Everything => ("everything", ""),
        };
        let (name, unknown) = (name.to_owned(), !self.operate.knows(&what));
        let done = self.operate.invalidate(what).await;
        let told = done.is_ok();
        tracing::info!(call = "invalidate", peer, kind, ?name, unknown, told, "control");
        match done {
            Ok(generation) => Ok(InvalidateResponse { generation, unknown }),
            Err(why) => Err(Status::unavailable(format!(
                "it holds for this process alone, since the others could not be told: {why}"
            ))),
        }
    }

    fn status(&self) -> StatusResponse {
        let state = self.operate.state();
        let part = |part: crate::serve::Part| Part {
            name: part.name.to_string(),
            required: part.required,
            ready: part.ready,
            state: part.state,
        };
        StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: state.uptime_seconds,
            configuration: state.configuration,
            policies: state.policies,
            ready: self.ready.is_ready(),
            draining: self.ready.is_draining(),
            doors: self.doors.clone(),
            parts: self.ready.parts().into_iter().map(part).collect(),
            caches: state.caches,
            generation: state.generation,
            subscribed: state.subscribed,
            log_level: state.log_level,
        }
    }

    fn log(&self, request: &SetLogLevelRequest, peer: &str) -> Result<SetLogLevelResponse, Status> {
        let set = self.operate.log(&request.level);
        let level = set.as_deref().unwrap_or("refused");
        tracing::info!(call = "set_log_level", peer, ?level, "control");
        set.map(|level| SetLogLevelResponse { level }).map_err(Status::invalid_argument)
    }
}

/// Longest name that is taken, bytes. The list that replicas share holds many of them, and must
/// stay smaller than a value of the store may be.
const LONGEST_NAME: usize = 1 << 10;

/// What is asked for; empty names are none.
fn read(request: InvalidateRequest) -> Result<Invalidation, Status> {
    let filled = |name: &str, text: String| {
        let wrong = |why| Err(Status::new(Code::InvalidArgument, format!("`{name}` {why}")));
        if text.is_empty() {
            wrong("is empty")
        } else if text.len() > LONGEST_NAME {
            wrong("is longer than 1 KiB")
        } else if text.chars().any(char::is_control) {
            wrong("holds control characters")
        } else {
            Ok(text)
        }
    };
    Ok(match request.target {
        Some(Target::User(user)) => Invalidation::User {
            issuer: filled("user.issuer", user.issuer)?,
            subject: filled("user.subject", user.subject)?,
        },
        Some(Target::TokenHash(hash)) => {
            let wrong = "`token_hash` is no BLAKE3 hash of 64 hexadecimal digits";
            let hash = Digest::from_hex(&hash);
            Invalidation::Token(hash.ok_or_else(|| Status::invalid_argument(wrong))?)
        }
        Some(Target::Issuer(issuer)) => Invalidation::Issuer(filled("issuer", issuer)?),
        Some(Target::Route(route)) => Invalidation::Route(filled("route", route)?),
        Some(Target::Everything(_)) => Invalidation::Everything,
        None => return Err(Status::invalid_argument("`target` is missing")),
    })
}

async fn unary<Q, A, F>(
    call: Request<Incoming>,
    answer: impl FnOnce(Q) -> F + Send,
) -> Response<Body>
where
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send,
{
    let codec = ProstCodec::<A, Q>::default();
    let mut grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(MAX_MESSAGE);
    let mut once = Some(answer);
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let answering = once.take().map(|answer| answer(request.into_inner()));
        async move {
            let answering = answering.ok_or(Status::internal("a call is answered once"))?;
            answering.await.map(tonic::Response::new)
        }
    });
    grpc.unary(service, call).await
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, call: Request<Incoming>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(call).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::control::messages::User;

    #[test]
    fn names_are_bounded() {
        let long = "x".repeat(LONGEST_NAME);
        let user = |issuer: &str, subject: &str| {
            Target::User(User { issuer: issuer.to_owned(), subject: subject.to_owned() })
        };
        for (name, taken) in [
            (long.as_str(), true),
            (&*format!("{long}x"), false),
            ("", false),
            ("a\u{1}b", false),
            ("a \"b\" é", true),
        ] {
            for target in [
                user(name, "s"),
                user("i", name),
                Target::Issuer(name.to_owned()),
                Target::Route(name.to_owned()),
            ] {
                let read = read(InvalidateRequest { target: Some(target) });
                assert_eq!(read.is_ok(), taken, "{name}");
                let refused = read.err().map(|status| status.code());
                assert!(refused.is_none_or(|code| code == Code::InvalidArgument));
            }
        }
    }
}
