//! TLS and who may ask: the real binary behind Envoy's own upstream TLS.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::certs::{Authority, ENVOY, Pair};
use crate::harness::{Ask, Setup, Token, World};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

pub(crate) fn setup() -> Setup {
    let plain = "check: [\"127.0.0.1:9191\"]";
    let tls = format!(
        "check:
  - address: 127.0.0.1:9191
    tls:
      certificate_file: FOLDER/tls/server.crt
      key_file: FOLDER/tls/server.key
      client_ca_file: FOLDER/tls/ca.crt
      allowed_peers: [\"{ENVOY}\", \"dns:second.example.test\"]"
    );
    let setup = Setup::of("envoy/mtls.yaml").portcullis(plain, &tls);
    let reload = "reload: { interval: 100ms }\nlimits: { handshake_timeout: 700ms }\nroutes:\n";
    setup.portcullis("routes:\n", reload)
}

/// Whether HTTP/2 is spoken to whoever shows `pair`; the server's certificate in any case.
fn served(world: &World, pair: Option<&Pair>) -> (bool, Option<Vec<u8>>) {
    let ca = world.authority.pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = "portcullis".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", world.ports.check)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    drop(stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"));
    let mut head = [0; 9];
    let read = stream.read_exact(&mut head).is_ok();
    let shown = stream.conn.peer_certificates().and_then(|all| Some(all.first()?.to_vec()));
    (read && head[3] == 4, shown)
}

fn refused(world: &World, why: &str) -> f64 {
    let why = format!("why=\"{why}\"");
    world.metric("portcullis_tls_refused_total", &["door=\"check\"", &why])
}

/// What comes back for these bytes until the peer closes.
fn raw(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", world.ports.check)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(bytes).unwrap();
    let mut back = Vec::new();
    let start = Instant::now();
    drop(socket.read_to_end(&mut back));
    assert!(start.elapsed() < Duration::from_secs(9), "it stays open");
    back
}

#[test]
fn envoy_asks_over_mutual_tls() {
    let world = setup().start();
    let answer = world.ask(Ask::get(OWN).bearer(&Token::of("dam.operator").sign()));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(world.ask(Ask::get(OWN)).status, 401);
    assert_eq!(world.counts(), [1, 1, 0]);
    let end = world.metric("portcullis_certificate_expiry_timestamp_seconds", &["door=\"check\""]);
    assert!(end > 1_800_000_000.0, "{end}");
}

#[test]
fn who_may_not_ask_gets_nothing() {
    let world = setup().start();
    let (own, other) = (&world.authority, Authority::new());
    assert!(served(&world, Some(&own.issue(ENVOY))).0);
    assert!(served(&world, Some(&own.issue("second.example.test"))).0);
    assert!(!served(&world, None).0, "no certificate");
    assert!(!served(&world, Some(&other.issue(ENVOY))).0, "another CA's");
    assert!(!served(&world, Some(&own.expired(ENVOY))).0, "an expired one");
    assert!(refused(&world, "handshake") > 2.5);
    for name in ["spiffe://example.test/envoy/x", "spiffe://example.test/", "example.test"] {
        assert!(!served(&world, Some(&own.issue(name))).0, "{name}");
    }
    assert!((refused(&world, "peer") - 3.0).abs() < 0.1);
}

#[test]
fn what_is_no_tls_or_too_old_or_silent_gets_nothing() {
    let world = setup().start();
    let back = raw(&world, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    assert!(back.is_empty() || back[0] == 0x15, "an alert at most: {back:?}");
    // A ClientHello of TLS 1.1 with a suite that it has.
    let mut hello = vec![0x03, 0x02];
    hello.extend_from_slice(&[7; 32]);
    hello.extend_from_slice(&[0, 0, 2, 0xc0, 0x13, 1, 0]);
    let length = u8::try_from(hello.len()).unwrap();
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend_from_slice(&hello);
    assert_eq!(raw(&world, &record).first(), Some(&0x15), "an alert");
    let before = refused(&world, "timeout");
    assert!(raw(&world, &record[..20]).is_empty(), "half a hello");
    assert!(raw(&world, b"").is_empty(), "silence");
    assert!(refused(&world, "timeout") > before + 1.5);
    assert_eq!(world.ask(Ask::get("/cwms-data/offices")).status, 200, "others go on");
}

#[test]
fn a_certificate_is_replaced_in_traffic_and_a_bad_one_is_not_taken() {
    let world = setup().start();
    let envoy = world.authority.issue(ENVOY);
    let first = served(&world, Some(&envoy)).1.unwrap();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (port, theirs) = (world.ports.envoy, (Arc::clone(&stop), Arc::clone(&asked)));
    let traffic = std::thread::spawn(move || {
        while !theirs.0.load(Ordering::SeqCst) {
            let answer = Ask::get("/cwms-data/offices").send(port);
            assert_eq!(answer.status, 200, "{answer:?}");
            theirs.1.fetch_add(1, Ordering::SeqCst);
        }
    });
    let until = |what: &str, condition: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let tls = world.folder().join("tls");
    let failed = || world.metric("portcullis_config_reloads_total", &["outcome=\"failed\""]);
    fs::write(tls.join("server.crt"), "no certificate").unwrap();
    until("the fault is met", &|| failed() >= 1.0);
    assert_eq!(served(&world, Some(&envoy)).1.unwrap(), first);
    fs::write(tls.join("server.crt"), world.authority.expired("portcullis").certificate).unwrap();
    until("the expired one is met", &|| failed() >= 2.0);
    let pair = world.authority.issue("portcullis");
    fs::write(tls.join("server.key"), &pair.key).unwrap();
    fs::write(tls.join("server.crt"), &pair.certificate).unwrap();
    until("the new one", &|| served(&world, Some(&envoy)).1.is_some_and(|shown| shown != first));
    let before = asked.load(Ordering::SeqCst);
    until("traffic", &|| asked.load(Ordering::SeqCst) > before + 5);
    // Another CA of those who ask: who has its certificate comes in, who has the old one's not.
    let other = Authority::new();
    fs::write(tls.join("ca.crt"), other.pem()).unwrap();
    until("the new CA", &|| served(&world, Some(&other.issue(ENVOY))).0);
    assert!(!served(&world, Some(&envoy)).0);
    stop.store(true, Ordering::SeqCst);
    traffic.join().unwrap();
    assert_eq!(world.counted("error"), 0, "connections that are open stay");
}
