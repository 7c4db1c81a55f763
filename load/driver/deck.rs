//! The requests of a run, made before its clock starts.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Uri};

use super::plan::{Ask, Expect, Mode, Order, Plan};
use super::wire::{self, Asked};

type Anything = Box<dyn std::error::Error + Send + Sync>;

/// Every kind of request, and in which proportion.
pub(crate) struct Deck {
    kinds: Vec<Kind>,
    seed: u64,
    total: f64,
}

/// One kind of request.
pub(crate) struct Kind {
    /// Its name in the report.
    pub(crate) name: String,
    /// The right answer.
    pub(crate) expect: Expect,
    weight: f64,
    order: Order,
    items: Vec<Item>,
    next: AtomicUsize,
}

/// One request.
pub(crate) enum Item {
    /// A framed `CheckRequest`.
    Grpc(Bytes),
    /// An HTTP request.
    Http {
        /// Method.
        method: Method,
        /// Path and query.
        uri: Uri,
        /// All header fields.
        headers: Vec<(HeaderName, HeaderValue)>,
        /// Body.
        body: Bytes,
    },
}

impl Deck {
    pub(crate) fn new(plan: &Plan) -> Result<Self, Anything> {
        let kinds = plan.asks.iter().map(|ask| Kind::new(ask, plan.mode));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { total: kinds.iter().map(|kind| kind.weight).sum(), kinds, seed: plan.seed })
    }

    /// The kinds, in the plan's order.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// What request `n` is: the kind's place, the kind, and the request itself; `None` where the
    /// tokens are at their end.
    pub(crate) fn draw(&self, n: u64) -> Option<(usize, &Kind, &Item)> {
        let chance = mixed(self.seed ^ n);
        let mut point = share(chance) * self.total;
        let found = self.kinds.iter().enumerate().find(|(_, kind)| {
            point -= kind.weight;
            point < 0.0
        });
        let (place, kind) = found.or_else(|| self.kinds.iter().enumerate().next_back())?;
        let count = kind.items.len();
        let item = match kind.order {
            Order::Cycle => kind.next.fetch_add(1, Ordering::Relaxed) % count,
            Order::Once => kind.next.fetch_add(1, Ordering::Relaxed),
            Order::Random => usize::try_from(mixed(chance)).unwrap_or_default() % count,
        };
        Some((place, kind, kind.items.get(item)?))
    }
}

/// `SplitMix64`.
fn mixed(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn share(n: u64) -> f64 {
    (n >> 11) as f64 / (1_u64 << 53) as f64
}

impl Kind {
    fn new(ask: &Ask, mode: Mode) -> Result<Self, Anything> {
        let text = match &ask.tokens {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?
            }
            None => "\n".to_owned(),
        };
        let items = text.lines().enumerate().map(|(n, token)| item(ask, mode, n, token));
        let items = items.collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() {
            return Err(format!("{}: no tokens", ask.name).into());
        }
        let reason = ask.expect.reason.clone();
        let expect = Expect { status: ask.expect.status, reason, sets: ask.expect.sets };
        let (name, next) = (ask.name.clone(), AtomicUsize::new(0));
        Ok(Self { name, expect, weight: ask.weight, order: ask.order, items, next })
    }
}

fn item(ask: &Ask, mode: Mode, n: usize, token: &str) -> Result<Item, Anything> {
    let path = ask.path.replace("{n}", &n.to_string());
    let body = match ask.body_bytes {
        0 => ask.body.replace("{token}", token).into_bytes(),
        size => vec![b'x'; size],
    };
    let token = if ask.body.contains("{token}") { "" } else { token };
    if mode == Mode::Grpc {
        let headers: Vec<_> = ask.headers.clone().into_iter().collect();
        let (method, path) = (&*ask.method, &*path);
        let asked = Asked { method, path, token, headers: &headers, body: &body };
        return Ok(Item::Grpc(wire::message(&asked)));
    }
    let mut headers = vec![
        (http::header::HOST, HeaderValue::from_static("water.example.test")),
        (http::header::USER_AGENT, HeaderValue::from_static("k6/1.3.0 (https://k6.io/)")),
        (http::header::ACCEPT, HeaderValue::from_static("application/json")),
    ];
    if !token.is_empty() {
        headers.push((http::header::AUTHORIZATION, format!("Bearer {token}").parse()?));
    }
    for (name, value) in &ask.headers {
        headers.push((name.parse()?, value.parse()?));
    }
    Ok(Item::Http { method: ask.method.parse()?, uri: path.parse()?, headers, body: body.into() })
}
