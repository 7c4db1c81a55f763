//! TLS of the doors that speak HTTP: admin and the decision API, each with peers of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::api::world::{Api, PLAIN_KEY};
use crate::harness::certs::{Authority, ENVOY, Pair};
use crate::harness::{Answer, Ask, Folder, port};

const SERVICE: &str = "data-api.example.test";

/// The answer to whoever shows `pair`; nothing where none came.
fn ask(authority: &Authority, port: u16, pair: Option<&Pair>, ask: Ask) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = "portcullis".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    drop(stream.write_all(&ask.header("connection", "close").into_head()));
    let mut whole = Vec::new();
    drop(stream.read_to_end(&mut whole));
    (!whole.is_empty()).then(|| Answer::parse(&whole))
}

fn question() -> Ask {
    // A body in the head would be another request: this one asks for the description.
    Ask::get("/openapi.json").header("x-api-key", PLAIN_KEY)
}

struct Doors {
    api: Api,
    authority: Authority,
    /// Plain to the tests, with TLS, with TLS and peers.
    admin: [u16; 2],
    check: u16,
    folder: Folder,
}

fn start() -> Doors {
    let (authority, folder) = (Authority::new(), Folder::new());
    authority.write(folder.path());
    let (admin, check) = ([port(), port()], port());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let own = format!("certificate_file: {}, key_file: {}", file("server.crt"), file("server.key"));
    let peers = |name: &str| {
        format!("{{ {own}, client_ca_file: {}, allowed_peers: [\"{name}\"] }}", file("ca.crt"))
    };
    let at = |port: u16, tls: &str| format!("{{ address: \"127.0.0.1:{port}\", tls: {tls} }}");
    let api = Api::with(|text| {
        let doors = |line: &str| {
            let place = line.split('"').nth(1).unwrap_or_default().to_owned();
            let port = place.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
            match line.trim_start().split(':').next() {
                Some("check") => format!("  check: [\"{place}\", {}]", at(check, &peers(ENVOY))),
                Some("admin") => format!(
                    "  admin: [\"{place}\", {}, {}]",
                    at(admin[0], &format!("{{ {own} }}")),
                    at(admin[1], &peers("dns:prometheus.example.test"))
                ),
                Some("api") => {
                    format!("  api: [{}]", at(port, &peers(&format!("dns:{SERVICE}"))))
                }
                _ => line.to_owned(),
            }
        };
        text.lines()
            .map(|line| {
                if line.starts_with("  ") && line.contains(": [\"127.") {
                    doors(line)
                } else {
                    line.to_owned()
                }
            })
            .collect::<Vec<_>>()
            .join("\n")
    });
    Doors { api, authority, admin, check, folder }
}

#[test]
fn s8_6_each_door_has_peers_of_its_own() {
    let doors = start();
    let (own, api) = (&doors.authority, doors.api.port);
    let [envoy, service, prometheus] =
        [ENVOY, SERVICE, "prometheus.example.test"].map(|name| own.issue(name));
    let served = ask(own, api, Some(&service), question()).unwrap();
    assert_eq!(served.status, 200, "{served:?}");
    // Who may ask Check may not ask the decision API, nor the reverse, nor who scrapes either.
    for (who, pair) in [("envoy", &envoy), ("prometheus", &prometheus)] {
        assert!(ask(own, api, Some(pair), question()).is_none(), "{who}");
    }
    assert!(ask(own, doors.check, Some(&service), question()).is_none());
    for pair in [None, Some(&Authority::new().issue(SERVICE)), Some(&own.expired(SERVICE))] {
        assert!(ask(own, api, pair, question()).is_none(), "{pair:?}");
    }
    let refused = |why: &str| {
        let text = Ask::get("/metrics").send(doors.api.ports.admin).text();
        let start = format!("portcullis_tls_refused_total{{door=\"api\",why=\"{why}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("0");
        line.parse::<u32>().unwrap()
    };
    assert_eq!((refused("peer"), refused("handshake")), (2, 3));
}

#[test]
fn s8_6_admin_is_served_with_tls_and_with_peers() {
    let doors = start();
    let own = &doors.authority;
    let get = |port, pair: Option<&Pair>| ask(own, port, pair, Ask::get("/metrics"));
    let [tls, mutual] = doors.admin;
    let text = get(tls, None).unwrap().text();
    for door in ["check", "admin", "api"] {
        let name = "portcullis_certificate_expiry_timestamp_seconds";
        let start = format!("{name}{{door=\"{door}\"}} ");
        let end = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
        assert!(end.parse::<f64>().unwrap() > 1_800_000_000.0, "{end}");
    }
    let prometheus = own.issue("prometheus.example.test");
    assert_eq!(get(mutual, Some(&prometheus)).unwrap().status, 200);
    assert!(get(mutual, None).is_none());
    assert!(get(mutual, Some(&own.issue(SERVICE))).is_none());
    // Plain HTTP to a door with TLS gets nothing of it.
    let plain = Ask::get("/metrics").try_send(mutual);
    assert!(plain.map_or(true, |answer| answer.status == 0));
}

#[test]
fn a_certificate_of_ours_that_has_expired_is_refused_by_that_name() {
    let folder = start().folder;
    let (authority, text) = (Authority::new(), "routes: [{ name: all, access: public }]\n");
    let check = |pair: &Pair| {
        folder.write("own.crt", &pair.certificate);
        folder.write("own.key", &pair.key);
        let tls = "{ certificate_file: own.crt, key_file: own.key }";
        let listen = format!("listen: {{ admin: [{{ address: \"127.0.0.1:1\", tls: {tls} }}] }}\n");
        let file = folder.write("portcullis.yaml", &format!("{listen}{text}"));
        let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["check-config", "--config"])
            .arg(file)
            .output()
            .unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(told).unwrap())
    };
    let (sound, told) = check(&authority.issue("portcullis"));
    assert!(sound, "{told}");
    // Its key belongs to it: the only fault is that it is over.
    let (sound, told) = check(&authority.expired("portcullis"));
    assert!(!sound && told.contains("the certificate has expired"), "{told}");
    let (old, other) = (authority.issue("portcullis"), authority.issue("portcullis"));
    let (sound, told) = check(&Pair { key: other.key, ..old });
    assert!(!sound && !told.contains("expired"), "{told}");
}
