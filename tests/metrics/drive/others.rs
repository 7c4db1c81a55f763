//! What only some worlds have: doors with TLS, an OPA server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::super::exposed::Seen;
use super::watched::Watched;
use super::{POLICY, calls};
use crate::harness::{Folder, Opa, Setup, port};

/// What only a door with TLS shows.
pub(super) fn doors() -> Seen {
    let mut it = Watched::new(crate::tls::setup().start());
    let send = |it: &Watched, bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", it.world.ports.check)).unwrap();
        stream.write_all(bytes).unwrap();
        // Until it is closed; what it says before that is TLS's business.
        drop(stream.read_to_end(&mut Vec::new()));
    };
    it.until(&["portcullis_tls_refused_total{door=\"check\",why=\"handshake\"}"], |it| {
        send(it, b"GET / HTTP/1.1\r\n\r\n");
    });
    it.until(&["portcullis_tls_refused_total{door=\"check\",why=\"timeout\"}"], |it| send(it, b""));
    let pair = it.world.authority.ending("portcullis", 2090);
    it.put("tls/server.key", &pair.key);
    it.put("tls/server.crt", &pair.certificate);
    it.until(&["portcullis_certificate_expiry_timestamp_seconds"], |_| {});
    it.seen
}

/// What only a world with an OPA server shows.
pub(super) fn opa() -> Seen {
    let folder = Folder::new();
    folder.write("more.rego", &POLICY.replace("REASON", "one"));
    let path = folder.path().join("more.rego");
    let mut opa = Opa::start(port(), folder.path(), &[&path]);
    let section = format!(
        "engine: opa\n  ttl: 1s\n  opa: {{ url: \"http://127.0.0.1:{}\", pure: true, on_failure: stale, \
         stale_for: 10m, timeout: 2s }}\n  paths: [",
        opa.port
    );
    let route = "routes:\n- { name: more, match: { path: /more }, access: public, policy: more, \
                 resource: more, action: read }\n";
    let more = "  entry_points:\n  - { name: more, rule: data.more.decision }\n";
    let world = Setup::quickstart()
        .portcullis("paths: [", &section)
        .portcullis("  entry_points:\n", more)
        .portcullis("routes:\n", route)
        .portcullis("budget: 400ms", "budget: 5s")
        .start();
    let mut it = Watched::new(world);
    it.until(&[&calls("opa", "ok")], |it| _ = it.ask("/more", ""));
    opa.process.signal("KILL");
    opa.process.ended(Duration::from_secs(15));
    let stale = "portcullis_degraded_answers_total{mark=\"stale\",part=\"decision\"}";
    it.until(&[stale, &calls("opa", "unreachable")], |it| _ = it.ask("/more", ""));
    it.seen
}
