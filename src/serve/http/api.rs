//! The decision API: `POST /authorize`, `POST /authorize/batch`, `GET /openapi.json`.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api_answer::{document, item, items, problem, whole};
use crate::check::ask::{Ask, Caller, Desk, Told, Users, When, Wrong};
use crate::model::{self, Code, Headers, Outcome, Record, Refusal};
use crate::serve::gate::Gate;
use crate::serve::{Arrival, Asks};

/// Route names of these questions in metrics and audit; no configured route has a colon.
const ONE: &str = "api:authorize";
const MANY: &str = "api:batch";

#[derive(Clone)]
struct Api {
    gate: Arc<Gate>,
    asks: Arc<dyn Asks>,
    /// How long a body may take to arrive.
    patience: Duration,
    /// Room for bodies, in KiB: they arrive before anybody is known.
    room: Arc<Semaphore>,
}

/// Bodies that arrive or are being answered at one time, in KiB.
const ROOM: usize = 64 << 10;

/// A call, read: its body is there, or why it is not.
struct Call {
    request: Arc<model::Request>,
    read: Result<(), Refusal>,
    desk: Arc<Desk>,
    /// Given back with the body.
    _room: Option<OwnedSemaphorePermit>,
}

/// The door's routes.
pub(crate) fn router(gate: Arc<Gate>, asks: Arc<dyn Asks>, patience: Duration) -> Router {
    Router::new()
        .route("/authorize", post(authorize))
        .route("/authorize/batch", post(batch))
        .route("/openapi.json", get(openapi))
        .fallback(async || problem(StatusCode::NOT_FOUND, "There is nothing at this path."))
        .method_not_allowed_fallback(async || {
            problem(StatusCode::METHOD_NOT_ALLOWED, "This path is not asked with this method.")
        })
        .with_state(Api { gate, asks, patience, room: Arc::new(Semaphore::new(ROOM)) })
}

async fn openapi(State(api): State<Api>) -> Response {
    match api.asks.desk() {
        Some(desk) => {
            ([(header::CONTENT_TYPE, "application/json")], document(&desk)).into_response()
        }
        None => gone(),
    }
}

/// A reload took the section away while its door is still open.
fn gone() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "There is no decision API at present.")
}

async fn authorize(State(api): State<Api>, request: Request) -> Response {
    let Some(call) = api.receive(request, |(one, _)| one).await else { return gone() };
    let request = Arc::clone(&call.request);
    let journey = api.gate.ask::<Told, _>(
        &request,
        ONE,
        move |arrival, record| Box::pin(one(call, arrival, record)),
        whole,
    );
    journey.await
}

/// The one question of a call: read, admitted, answered.
async fn one(call: Call, arrival: Arrival, record: &mut Record) -> (Outcome, Option<Told>) {
    let (desk, when) = (&call.desk, when(arrival));
    let admitted = async {
        call.read?;
        let ask = desk.read(&call.request)?;
        let caller = desk.caller(&call.request, slice::from_ref(&ask), when, record).await?;
        Ok::<_, Refusal>((ask, caller))
    };
    match admitted.await {
        Ok((ask, caller)) => desk.answer(&caller, &ask, &Users::default(), when, record).await,
        Err(refusal) => {
            record.detail = refusal.detail;
            (desk.refuse(refusal.into()), None)
        }
    }
}

async fn batch(State(api): State<Api>, request: Request) -> Response {
    let Some(call) = api.receive(request, |(_, many)| many).await else { return gone() };
    let (request, desk) = (Arc::clone(&call.request), Arc::clone(&call.desk));
    let opened = api.gate.open::<(Vec<Ask>, Caller), _>(
        &request,
        MANY,
        move |arrival, record| Box::pin(many(call, arrival, record)),
        |outcome, facts| whole(outcome, facts, None),
    );
    let (asks, caller) = match opened.await {
        Ok(opened) => opened,
        Err(answer) => return answer,
    };
    let (caller, users) = (Arc::new(caller), Arc::new(Users::default()));
    let answers = asks.into_iter().map(|ask| {
        let (desk, caller, users) = (desk.clone(), caller.clone(), users.clone());
        let (api, request) = (api.clone(), request.clone());
        async move {
            let journey = api.gate.ask::<Told, _>(
                &request,
                MANY,
                move |arrival, record| {
                    Box::pin(async move {
                        desk.answer(&caller, &ask, &users, when(arrival), record).await
                    })
                },
                item,
            );
            journey.await
        }
    });
    items(&join_all(answers).await)
}

/// The questions of a batch: read, and their caller admitted.
async fn many(
    call: Call,
    arrival: Arrival,
    record: &mut Record,
) -> Result<(Vec<Ask>, Caller), Outcome> {
    let admitted = async {
        call.read?;
        let asks = call.desk.read_batch(&call.request)?;
        let caller = call.desk.caller(&call.request, &asks, when(arrival), record).await?;
        Ok::<_, Wrong>((asks, caller))
    };
    let admitted = admitted.await;
    admitted.map_err(|wrong| {
        record.detail = wrong.refusal.detail;
        call.desk.refuse(wrong)
    })
}

fn when(arrival: Arrival) -> When {
    When { now: arrival.now, deadline: arrival.deadline }
}

impl Api {
    /// Reads a call; its body may be as large as `limit` chooses of the two. `None` where nothing
    /// answers.
    async fn receive(
        &self,
        request: Request,
        limit: impl Fn((usize, usize)) -> usize,
    ) -> Option<Call> {
        let desk = self.asks.desk()?;
        let (parts, body) = request.into_parts();
        let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let text = |name: &str| parts.headers.get(name).map(http::HeaderValue::as_bytes);
        let id = text("x-request-id").and_then(|id| std::str::from_utf8(id).ok());
        let mut made = model::Request {
            id: id.unwrap_or_default().to_owned(),
            method: parts.method.as_str().to_owned().into(),
            target: Bytes::copy_from_slice(parts.uri.path().as_bytes()),
            host: Bytes::copy_from_slice(text("host").unwrap_or_default()),
            headers: Headers::from_pairs(headers),
            ..model::Request::default()
        };
        let limit = limit(desk.max_bodies());
        let room = self.room_for(&body, limit);
        let arrived = match &room {
            Some(_) => arrive(body, limit, self.patience).await,
            None => Err(Refusal::new(Code::Overloaded, "too many bodies are arriving")),
        };
        let read = match arrived {
            Ok(bytes) => {
                made.body.bytes = bytes;
                Ok(())
            }
            Err(refusal) => Err(refusal),
        };
        Some(Call { request: Arc::new(made), read, desk, _room: room })
    }

    /// Room for `body`, as large as it says it is or may be.
    fn room_for(&self, body: &Body, limit: usize) -> Option<OwnedSemaphorePermit> {
        let told = body.size_hint().exact().and_then(|told| usize::try_from(told).ok());
        let kib = told.unwrap_or(limit).min(limit).div_ceil(1 << 10).max(1);
        let kib = u32::try_from(kib.min(ROOM)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(kib).ok()
    }
}

/// The whole body, in time and within `max` bytes.
async fn arrive(body: Body, max: usize, patience: Duration) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(patience, Limited::new(body, max).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(Code::TooLarge, "the body is too large"))
        }
        Ok(Err(_)) => Err(Refusal::new(Code::RequestInvalid, "the body ended early")),
        Err(_) => Err(Refusal::new(Code::RequestInvalid, "the body did not arrive in time")),
    }
}
