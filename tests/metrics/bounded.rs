//! Scanners make no series: whatever they send, the labels' values are from known sets.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use envoy_types::pb::envoy::service::auth::v3::CheckRequest;
use portcullis::model::Code;
use prost::Message as _;

use super::exposed::{self, Sample};
use crate::harness::{Setup, Token, World, grpc};
use crate::kit::token::Signer;

/// Of each kind.
const MANY: usize = 10_000;

/// Asks all of these, so many at a time over one connection.
pub(super) fn flood(port: u16, at_once: usize, asks: impl Iterator<Item = CheckRequest>) {
    let uri = format!("http://127.0.0.1:{port}/envoy.service.auth.v3.Authorization/Check");
    let run = async move {
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
        let (mut under_way, mut asks) = (tokio::task::JoinSet::new(), asks);
        loop {
            while under_way.len() < at_once {
                let Some(ask) = asks.next() else { break };
                let message = ask.encode_to_vec();
                let mut body = vec![0];
                body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
                body.extend_from_slice(&message);
                let call = client
                    .post(&uri)
                    .timeout(Duration::from_mins(2))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(body);
                under_way.spawn(async move { call.send().await?.bytes().await });
            }
            match under_way.join_next().await {
                Some(answer) => drop(answer.unwrap().unwrap()),
                None => return,
            }
        }
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
}

/// Paths, methods and hosts that nobody configured, and some that somebody did.
fn path(n: usize) -> CheckRequest {
    let target = match n % 4 {
        0 => format!("/scan-{n}/wp-login.php?scan={n}"),
        1 => format!("/cwms-data/scan-{n}"),
        2 => format!("/cwms-data/timeseries/scan-{n}?office=SCAN{n}"),
        _ => format!("/cwms-data/%2e%2e/scan-{n}"),
    };
    let mut ask = grpc::get(&target, &[("user-agent", format!("scan-{n}").as_bytes())]);
    let http = ask.attributes.as_mut().unwrap().request.as_mut().unwrap().http.as_mut().unwrap();
    http.host = format!("scan-{n}.example.test");
    http.id = format!("scan-{n}");
    if n.is_multiple_of(7) {
        http.method = format!("SCAN{n}");
    }
    ask
}

fn bearer(token: &str) -> CheckRequest {
    let value = format!("Bearer {token}");
    grpc::get("/cwms-data/timeseries?office=SPK&name=Elev", &[("authorization", value.as_bytes())])
}

/// Users with good tokens that the user API does not know.
fn user(n: usize) -> CheckRequest {
    bearer(&Token::of(&format!("scan-{n}")).signer(Signer::Ec).sign())
}

/// Tokens with key ids that no issuer has, of that and of other issuers.
fn kid(n: usize) -> CheckRequest {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let issuer = if n.is_multiple_of(5) {
        format!("https://scan-{n}.example.test")
    } else {
        "https://idp.playground.test".to_owned()
    };
    let header = part(format!(r#"{{"alg":"RS256","typ":"JWT","kid":"scan-{n}"}}"#));
    let claims = part(format!(
        r#"{{"iss":"{issuer}","aud":"water-data","sub":"scan-{n}","exp":4000000000}}"#
    ));
    bearer(&format!("{header}.{claims}.{}", part(format!("scan-{n}"))))
}

fn series(world: &World) -> Vec<Sample> {
    exposed::samples(&world.metrics())
}

fn names(samples: &[Sample]) -> BTreeSet<String> {
    samples.iter().map(|sample| format!("{} {:?}", sample.name, sample.labels)).collect()
}

#[test]
fn scanners_make_no_series() {
    // Nobody shall run out of time here.
    let world = Setup::quickstart()
        .unhurried()
        .portcullis("budget: 8s", "budget: 60s")
        .portcullis("timeout: 7s", "timeout: 50s")
        .start();
    let kinds: [fn(usize) -> CheckRequest; 3] = [path, user, kid];
    // One of each, so that all series are there that such traffic has.
    for ask in kinds {
        flood(world.ports.check, 8, (MANY..MANY + 60).map(ask));
    }
    let before = series(&world);
    for ask in kinds {
        flood(world.ports.check, 32, (0..MANY).map(ask));
    }
    let after = series(&world);
    assert_eq!(names(&after), names(&before));

    let total = |samples: &[Sample]| -> f64 {
        let checks = samples.iter().filter(|sample| sample.name == "portcullis_checks_total");
        checks.map(|sample| sample.value.parse::<f64>().unwrap()).sum()
    };
    let all = f64::from(u32::try_from(kinds.len() * MANY).unwrap());
    assert!((total(&after) - total(&before) - all).abs() < 0.5, "each was counted");
    known(&after);
}

/// Every label has a value that was known before anybody asked.
fn known(samples: &[Sample]) {
    let core: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let policies = crate::harness::files::shipped("policies/cwms/decision.rego")
        + &crate::harness::files::shipped("policies/cwms/offices.rego");
    for Sample { name, labels, .. } in samples {
        for (label, value) in labels {
            assert!(!value.to_ascii_lowercase().contains("scan"), "{name} {labels:?}");
            let is_known = match label.as_str() {
                "reason" => {
                    core.contains(value.as_str())
                        || value == "other"
                        || policies.contains(&format!("\"{value}\""))
                }
                "route" => ["health", "collection", "member", "none"].contains(&value.as_str()),
                "outcome" => ["allow", "deny", "unavailable", "ok", "refused", "failed"]
                    .contains(&value.as_str()),
                "issuer" => value == "playground",
                "dependency" => value == "user_api",
                "door" => ["check", "admin"].contains(&value.as_str()),
                "stage" => ["route", "authn", "context", "policy"].contains(&value.as_str()),
                "mark" => ["stale", "open"].contains(&value.as_str()),
                "revision" | "version" | "le" | "cache" | "result" | "part" => true,
                "how" | "kind" => name.starts_with("portcullis_invalidations"),
                _ => false,
            };
            assert!(is_known, "{name}: {label}={value}");
        }
    }
}
