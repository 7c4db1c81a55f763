//! What is asked, and what is permitted: written from who the playground's users are, not by
//! calling the service.

use serde_json::{Value, json};

use crate::harness::{Answer, Ask, Token};
use crate::kit::token::{Signer, now};
use crate::parity::generate::Generator;

const MANAGED: &str = "x-cwms-auth-context";
const SPOOFED: &str = "{\"spoofed\":true,\"user\":{\"id\":\"ADMIN\"}}";
const SPELLINGS: [&str; 5] = [
    "x-cwms-auth-context",
    "X-Cwms-Auth-Context",
    "x_cwms_auth_context",
    "x-cwms_auth-context",
    "x.cwms.auth.context",
];
const OFFICES: [&str; 4] = ["SPK", "SWT", "SPL", "HQ"];
/// A user's name and the office where he works; the last one may act in every office.
const PEOPLE: [(&str, &str); 4] =
    [("dam.operator", "SPK"), ("water.manager", "SWT"), ("viewer", "SPL"), ("admin", "*")];
/// Different callers of one name, so that there are more contexts than fit into memory.
const CALLERS: usize = 150;
/// How long a short token lives, and how long it is used after its end; seconds.
const SHORT: (i64, i64) = (4, 4);

/// What must become of a request.
#[derive(Debug, Clone)]
pub(super) enum Due {
    /// It arrives, with this user and these offices in the one managed header.
    Arrives { id: String, offices: Value },
    /// This status, and nothing arrives.
    Refused(u16),
}

/// A request with what is due to it.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) ask: Ask,
    pub(super) what: String,
    pub(super) due: Due,
    /// Second since the epoch at which its token ends; from then on it is refused.
    ends: Option<i64>,
    /// Whether somebody has to be asked who the caller is.
    pub(super) needs_user: bool,
}

/// Tokens made once; each caller uses the same again and again.
#[derive(Debug)]
pub(super) struct Tokens {
    people: Vec<Vec<String>>,
    strangers: Vec<String>,
    broken: Vec<(&'static str, String)>,
}

impl Tokens {
    pub(super) fn make() -> Self {
        let of = |name: &str, n| Token::of(name).claim("sub", format!("sub-{name}-{n}"));
        let all = |name: &str| (0..CALLERS).map(|n| of(name, n).sign()).collect();
        let mut broken = Vec::new();
        for (name, _) in PEOPLE {
            let good = Token::of(name);
            broken.push(("expired", good.clone().expired().sign()));
            broken.push(("forged", good.clone().signer(Signer::Forger).sign()));
            broken.push(("another's audience", good.clone().claim("aud", "another").sign()));
            broken.push(("another issuer", good.claim("iss", "https://idp.other.test").sign()));
        }
        Self {
            people: PEOPLE.iter().map(|(name, _)| all(name)).collect(),
            strangers: all("stranger"),
            broken,
        }
    }
}

/// One client: its dice, and a token of short life.
pub(super) struct Client<'a> {
    pub(super) dice: Generator,
    tokens: &'a Tokens,
    short: Option<(String, i64)>,
}

impl<'a> Client<'a> {
    pub(super) fn new(seed: u64, tokens: &'a Tokens) -> Self {
        Self { dice: Generator::new(seed), tokens, short: None }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Case {
        let mut case = match self.dice.below(10) {
            0 => self.nobody(),
            1 => self.broken(),
            2 => self.stranger(),
            3 => self.short(),
            _ => self.known(),
        };
        let spoofs = if case.what.starts_with("health") { 100 } else { 20 };
        if self.dice.chance(spoofs) {
            let name = self.dice.pick(&SPELLINGS);
            case.ask = case.ask.header(name, SPOOFED);
            case.what = format!("{}, spoofed {name}", case.what);
        }
        case
    }

    fn nobody(&mut self) -> Case {
        match self.dice.below(3) {
            0 => case("health by nobody", "GET", "/cwms-data/health", "", anonymous()),
            1 => case("offices by nobody", "GET", "/cwms-data/offices", "", anonymous()),
            _ => case("data by nobody", "GET", &data(self.office()), "", Due::Refused(401)),
        }
    }

    fn broken(&mut self) -> Case {
        let (flaw, token) = &self.tokens.broken[self.dice.below(self.tokens.broken.len())];
        let (target, due) = match self.dice.below(4) {
            // No credential is read there.
            0 => ("/cwms-data/health".to_owned(), anonymous()),
            1 => ("/cwms-data/offices".to_owned(), Due::Refused(401)),
            _ => (data(self.office()), Due::Refused(401)),
        };
        let place = if target.ends_with("health") { "health" } else { "data" };
        case(&format!("{place} by {flaw} token"), "GET", &target, token, due)
    }

    fn stranger(&mut self) -> Case {
        let token = &self.tokens.strangers[self.dice.below(CALLERS)];
        let target =
            if self.dice.chance(30) { "/cwms-data/offices".into() } else { data(self.office()) };
        let case = case("data by a stranger", "GET", &target, token, Due::Refused(403));
        Case { needs_user: true, ..case }
    }

    fn short(&mut self) -> Case {
        let ended = |(_, ends): &(String, i64)| now() >= ends + SHORT.1;
        if self.short.as_ref().is_none_or(ended) {
            let ends = now() + SHORT.0;
            let n = self.dice.below(CALLERS);
            let token = Token::of("viewer").claim("sub", format!("sub-viewer-{n}"));
            self.short = Some((token.claim("exp", ends).sign(), ends));
        }
        let (token, ends) = self.short.as_ref().unwrap();
        let case = case("data by a short token", "GET", &data("SPL"), token, own("viewer", "SPL"));
        Case { needs_user: true, ends: Some(*ends), ..case }
    }

    fn known(&mut self) -> Case {
        let n = self.dice.below(PEOPLE.len());
        let token = &self.tokens.people[n][self.dice.below(CALLERS)];
        let (name, home) = PEOPLE[n];
        let office = if self.dice.chance(60) && home != "*" { home } else { self.office() };
        let (method, target) = match self.dice.below(10) {
            0 => ("GET", "/cwms-data/offices".to_owned()),
            1 => ("POST", data(office)),
            2 => ("DELETE", data(office)),
            _ => ("GET", data(office)),
        };
        // An operator enters data by the hours of a shift: what then is due depends on the time.
        let method = if (name, method) == ("dam.operator", "POST") { "DELETE" } else { method };
        let due = match (name, method) {
            _ if target.ends_with("/offices") => own(name, home),
            ("admin", _) => own(name, office),
            _ if office != home => Due::Refused(403),
            ("water.manager", "POST") | (_, "GET") => own(name, office),
            _ => Due::Refused(403),
        };
        let what = format!("{method} {target} by {name}");
        Case { needs_user: true, ..case(&what, method, &target, token, due) }
    }

    fn office(&mut self) -> &'static str {
        self.dice.pick(&OFFICES)
    }
}

fn case(what: &str, method: &str, target: &str, token: &str, due: Due) -> Case {
    let ask = Ask::new(method, target);
    let ask = if token.is_empty() { ask } else { ask.bearer(token) };
    let ask = if method == "POST" { ask.header("content-length", "0") } else { ask };
    Case { ask, what: what.to_owned(), due, ends: None, needs_user: false }
}

fn data(office: &str) -> String {
    format!("/cwms-data/timeseries?office={office}&name=Elev")
}

fn anonymous() -> Due {
    Due::Arrives { id: "anonymous".to_owned(), offices: json!([]) }
}

fn own(name: &str, office: &str) -> Due {
    Due::Arrives { id: name.to_ascii_uppercase(), offices: json!([office]) }
}

impl Case {
    /// What is wrong with the answer; `sent` and `done` are seconds since the epoch, and
    /// `excused` says whether a fault may have made it unavailable.
    pub(super) fn wrong(
        &self,
        answer: &Answer,
        (sent, done): (i64, i64),
        excused: bool,
    ) -> Option<String> {
        let over = self.ends.is_some_and(|ends| sent >= ends);
        let late = self.ends.is_some_and(|ends| done >= ends);
        match (&self.due, answer.status) {
            (_, 503) if excused => None,
            (_, 503) => Some(format!("unavailable without a fault: {}", answer.text())),
            (Due::Arrives { id, offices }, 200) if !over => arrived(answer, id, offices),
            (_, 200) => Some(format!("WRONG ALLOW: {}", answer.text())),
            (Due::Arrives { .. }, 401) if late => None,
            (Due::Refused(status), is) if *status == is => None,
            (due, is) => Some(format!("{is} instead of {due:?}: {}", answer.text())),
        }
    }
}

fn arrived(answer: &Answer, id: &str, offices: &Value) -> Option<String> {
    let Ok(_) = serde_json::from_slice::<Value>(&answer.body) else {
        return Some(format!("half an answer: {}", answer.text()));
    };
    let seen = answer.seen(MANAGED);
    if seen.len() != 1 || answer.text().contains("spoofed") {
        return Some(format!("SPOOFED: {seen:?}"));
    }
    let context: Value = serde_json::from_str(&seen[0]).unwrap_or_default();
    let same = context["user"]["id"] == id && context["constraints"]["allowed_offices"] == *offices;
    (!same).then(|| format!("WRONG ALLOW: not {id} in {offices}: {context}"))
}
