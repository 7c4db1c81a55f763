//! The service of one HTTP/2 connection: our own method, then health and reflection.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::Either;
use hyper::body::{Body as HttpBody, Incoming};
use tonic::body::Body;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::ServiceExt as _;

use super::response::{Answer, render};
use super::{request, wire};
use crate::model::BoxFuture;
use crate::serve::config::Envoy;
use crate::serve::gate::Gate;

const PATH: &str = "/envoy.service.auth.v3.Authorization/Check";
const NAME: &str = "envoy.service.auth.v3.Authorization";
/// `envoy/service/auth/v3/external_auth.proto` and everything it imports, made by
/// `protoc --include_imports --descriptor_set_out` from the `proto` folder of the `envoy-types`
/// crate (each folder in it is an import path).
const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

/// Answers every call of the check door.
#[derive(Clone)]
pub(crate) struct Service {
    gate: Arc<Gate>,
    envoy: Envoy,
    max_size: usize,
    others: Routes,
}

/// Tells `grpc.health.v1` watchers the state.
#[derive(Clone)]
pub(crate) struct Health(HealthReporter);

impl Health {
    /// Of the whole server and of the Check service.
    pub(crate) async fn set(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in ["", NAME] {
            self.0.set_service_status(name, status).await;
        }
    }
}

impl Service {
    /// A service that is `NOT_SERVING` until told otherwise. Without reflection if the descriptors
    /// cannot be read, which a test rules out.
    pub(crate) async fn new(gate: Arc<Gate>, envoy: Envoy, max_size: usize) -> (Self, Health) {
        let (reporter, server) = tonic_health::server::health_reporter();
        let health = Health(reporter);
        health.set(false).await;
        let mut others = Routes::new(server);
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        if let (Ok(v1), Ok(v1alpha)) = (builder().build_v1(), builder().build_v1alpha()) {
            others = others.add_service(v1).add_service(v1alpha);
        } else {
            tracing::error!("the service descriptors cannot be read; no reflection");
        }
        (Self { gate, envoy, max_size, others: others.prepare() }, health)
    }
}

async fn check<B: HttpBody<Data = Bytes>>(
    gate: &Gate,
    envoy: Envoy,
    max_size: usize,
    call: Request<B>,
) -> Response<wire::Reply> {
    let (head, body) = call.into_parts();
    let timeout = wire::timeout(&head.headers);
    let receive = async {
        let message = wire::receive(body, max_size).await?;
        request::read(&message)
    };
    let answer = |outcome: &_, facts: &_| match render(outcome, facts, envoy) {
        Answer::Check(frame) => wire::reply(frame),
        Answer::Error => wire::error(tonic::Code::Unavailable, "unavailable"),
    };
    gate.check(receive, timeout, &head.headers, answer).await
}

/// Answers one call of `Check` that came on no connection: what the check door does between the
/// frames of a call and those of its answer. Its cost is what `load/instructions` counts.
pub async fn answer<B: HttpBody<Data = Bytes>>(
    gate: &Gate,
    envoy: Envoy,
    max_size: usize,
    call: Request<B>,
) -> Response<impl HttpBody<Data = Bytes, Error = Infallible>> {
    check(gate, envoy, max_size, call).await
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Either<wire::Reply, Body>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, call: Request<Incoming>) -> Self::Future {
        if call.uri().path() == PATH && call.method() == Method::POST {
            let (gate, envoy, max_size) = (Arc::clone(&self.gate), self.envoy, self.max_size);
            return async move { Ok(check(&gate, envoy, max_size, call).await.map(Either::Left)) }
                .boxed();
        }
        self.others.clone().oneshot(call).map(|answer| answer.map(|a| a.map(Either::Right))).boxed()
    }
}
