//! Real binaries behind a real Envoy, driven until every metric has moved: with Redis, with TLS,
//! with an OPA server; and each of these broken.

mod issuer;
mod others;
mod service;
mod watched;

use std::sync::LazyLock;

use super::exposed::Seen;

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const POLICY: &str = "package more\n\ndecision := {\"allow\": true, \"reason\": \"REASON\"}\n";

/// What all of them served together; made once.
pub(super) fn all() -> &'static Seen {
    static ALL: LazyLock<Seen> = LazyLock::new(|| {
        std::thread::scope(|scope| {
            let parts = [
                scope.spawn(service::service),
                scope.spawn(others::doors),
                scope.spawn(others::opa),
            ];
            let mut all = Seen::default();
            for part in parts {
                all.join(part.join().unwrap());
            }
            all
        })
    });
    &ALL
}

fn calls(dependency: &str, outcome: &str) -> String {
    format!(
        "portcullis_dependency_calls_total{{dependency=\"{dependency}\",outcome=\"{outcome}\"}}"
    )
}
