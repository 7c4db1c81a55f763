//! Every call, by the command line; and who may call.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::harness::certs::{ENVOY, Pair};

#[test]
fn status_reload_and_log_level_over_the_socket() {
    let world = setup(None).start();
    let replica = Replica::of(&world);
    let mode = std::fs::symlink_metadata(&replica.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);

    let token = token();
    assert_eq!(replica.status(&token), 200);
    let status = said(&replica.control(&["status"]));
    for text in [
        "portcullis 0.1.0, ready, up ",
        "configuration ",
        "door check 127.0.0.1:",
        "door control unix:/",
        "part issuer:playground ok: ",
        "part dependency:user_api ok: ",
        "cache context 1 entries",
        "invalidations of other replicas heard, generation ",
        "log warn,portcullis=info",
    ] {
        assert!(status.contains(text), "{text} not in {status}");
    }

    // A reload that works, one that cannot, and what does nothing before the next start.
    let done = replica.control(&["reload"]);
    assert!(done.status.success() && said(&done).contains("in force: configuration"), "{done:?}");
    let path = world.folder().join("portcullis.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let revision = |text: &str| {
        let line = text.lines().find(|line| line.contains("configuration ")).unwrap();
        line.split("configuration ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    std::fs::write(&path, good.replace("audiences: [", "audience: [")).unwrap();
    let failed = replica.control(&["reload"]);
    assert_eq!(failed.status.code(), Some(1));
    let text = said(&failed);
    assert!(
        text.contains("audience") && text.contains("the last good configuration stays"),
        "{text}"
    );
    std::fs::write(&path, format!("{good}\nlog: {{ level: warn }}\n")).unwrap();
    let text = said(&replica.control(&["reload"]));
    assert!(text.contains("only when the process starts again: log"), "{text}");
    assert_ne!(revision(&text), revision(&status));
    assert_eq!(revision(&text), revision(&said(&replica.control(&["status"]))));

    // The log's level.
    let log = || world.portcullis.as_ref().unwrap().output();
    assert!(!log().contains("\"level\":\"DEBUG\""));
    let set = replica.control(&["log-level", "warn,portcullis=info,h2=debug"]);
    assert!(said(&set).contains("logs by warn,portcullis=info,h2=debug"), "{set:?}");
    until("it logs more", || {
        replica.status(&token);
        log().contains("\"level\":\"DEBUG\"")
    });
    let refused = replica.control(&["log-level", "loud"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("`loud` is no level"), "{refused:?}");
    let said_now = said(&replica.control(&["status"]));
    assert!(said_now.contains("log warn,portcullis=info,h2=debug"), "{said_now}");
    assert!(log().contains("\"call\":\"set_log_level\",\"peer\":\"uid "), "{}", log());
}

#[test]
fn s5_8_each_kind_is_forgotten_and_nothing_else() {
    let world = setup(None).start();
    let replica = Replica::of(&world);
    let token = token();
    let misses = |cache: &str| {
        replica.metric(&format!(
            "portcullis_cache_requests_total{{cache=\"{cache}\",result=\"miss\"}}"
        ))
    };
    let warm = || {
        assert_eq!(replica.status(&token), 200);
        let before = (misses("token"), misses("context"), misses("decision"));
        assert_eq!(replica.status(&token), 200);
        let after = (misses("token"), misses("context"), misses("decision"));
        [after.0 > before.0, after.1 > before.1, after.2 > before.2]
    };
    warm();
    assert_eq!(warm(), [false; 3]);
    let hash = blake3::hash(token.as_bytes()).to_hex().to_string();
    let hash = ["token", "--hash", hash.as_str()];
    let cases: [(&[&str], [bool; 3]); 9] = [
        (&["user", ISSUER, "sub-dam.operator"], [true, true, true]),
        (&["user", ISSUER, "sub-somebody"], [false; 3]),
        (&hash, [true, true, true]),
        (&["issuer", ISSUER], [true, true, true]),
        (&["issuer", "https://another.test"], [false; 3]),
        (&["user", "https://another.test", "sub-dam.operator"], [false; 3]),
        (&["route", "collection"], [false, false, true]),
        (&["route", "nowhere"], [false; 3]),
        (&["everything"], [true, true, true]),
    ];
    for (what, missed) in cases {
        warm();
        let known = !what.iter().any(|name| ["https://another.test", "nowhere"].contains(name));
        assert_eq!(
            replica.invalidates(what).contains("no such issuer or route"),
            !known,
            "{what:?}"
        );
        let before = [misses("token"), misses("context"), misses("decision")];
        assert_eq!(replica.status(&token), 200);
        let after = [misses("token"), misses("context"), misses("decision")];
        let again = std::array::from_fn(|n| after[n] > before[n]);
        assert_eq!(again, missed, "{what:?}");
    }
    // The token itself is read from standard input and never sent.
    let wrong = replica.control(&["invalidate", "token", "--hash", "abc"]);
    assert!(said(&wrong).contains("64 hexadecimal digits"), "{wrong:?}");
    let log = world.portcullis.as_ref().unwrap().output();
    assert!(log.contains("\"kind\":\"route\",\"name\":\"\\\"collection\\\"\""), "{log}");
    assert!(!log.contains("sub-dam.operator") && !log.contains(&token), "{log}");
}

#[test]
fn a_peer_that_is_not_listed_gets_nothing() {
    let admin = "  admin: [\"127.0.0.1:9190\"]\n";
    let at = port();
    let door = format!(
        "{admin}  control:
  - address: 127.0.0.1:{at}
    tls:
      certificate_file: FOLDER/tls/server.crt
      key_file: FOLDER/tls/server.key
      client_ca_file: FOLDER/tls/ca.crt
      allowed_peers: [\"{ENVOY}\"]\n"
    );
    let world = Setup::quickstart().portcullis(admin, &door).start();
    let tls = world.folder().join("tls");
    let call = |pair: &Pair| {
        let (certificate, key) = (tls.join("client.crt"), tls.join("client.key"));
        std::fs::write(&certificate, &pair.certificate).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
        let file = |path: &std::path::Path| path.display().to_string();
        let (ca, certificate, key) = (file(&tls.join("ca.crt")), file(&certificate), file(&key));
        let files = ["--ca-file", &ca, "--certificate-file", &certificate, "--key-file", &key];
        let mut args = vec!["--server-name", "portcullis"];
        args.extend(files);
        args.push("status");
        control(&format!("127.0.0.1:{at}"), &args)
    };
    let listed = call(&world.authority.issue(ENVOY));
    assert!(said(&listed).contains("door control 127.0.0.1:"), "{listed:?}");
    for name in ["spiffe://example.test/another", "envoy.example.test"] {
        let other = call(&world.authority.issue(name));
        assert_eq!(other.status.code(), Some(1), "{name}: {other:?}");
        assert!(other.stdout.is_empty(), "{other:?}");
    }
    let log = world.portcullis.as_ref().unwrap().output();
    assert!(log.contains(&format!("\"peer\":\"{ENVOY}\"")), "{log}");
    let refused = "portcullis_tls_refused_total";
    let count = world.metric(refused, &["door=\"control\"", "why=\"peer\""]);
    assert!((count - 2.0).abs() < f64::EPSILON, "{count}");
}
