//! Plays a user API and an issuer's key set over TLS, and fails as it is told: for faults that no
//! real part shows on command.

use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::certs::{Authority, Pair};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Good,
    /// Nobody listens.
    Down,
    /// It takes the request and says nothing.
    Hanging,
    /// It takes that many milliseconds.
    Slow(u64),
    Status(u16),
    /// The answer ends in its middle.
    Truncated,
    /// JSON of two mebibytes.
    Huge,
    /// A page.
    WrongType,
    /// JSON that is not what was asked for: another person's profile, a key set without keys.
    Another,
    /// Its certificate is another CA's.
    Stranger,
}

/// The running server; it ends with the value.
pub(super) struct Server {
    pub(super) port: u16,
    mode: Arc<Mutex<Mode>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Answers {
    jwks: String,
    own: Arc<ServerConfig>,
    strange: Arc<ServerConfig>,
}

fn config(pair: &Pair) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

impl Server {
    /// Starts it with a certificate of `authority` for `localhost`, and `jwks` as its key set.
    pub(super) fn start(authority: &Authority, jwks: String) -> Self {
        let port = crate::harness::port();
        let mode = Arc::new(Mutex::new(Mode::Good));
        let stop = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(Answers {
            jwks,
            own: config(&authority.issue("localhost")),
            strange: config(&Authority::new().issue("localhost")),
        });
        let (theirs, ends) = (Arc::clone(&mode), Arc::clone(&stop));
        let thread = std::thread::spawn(move || serve(port, &answers, &theirs, &ends));
        let server = Self { port, mode, stop, thread: Some(thread) };
        server.until_it_listens(true);
        server
    }

    /// From now on it answers like that.
    pub(super) fn turn(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        self.until_it_listens(mode != Mode::Down);
    }

    fn until_it_listens(&self, wanted: bool) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() != wanted {
            assert!(start.elapsed() < Duration::from_secs(10), "it listens: {}", !wanted);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(self.thread.take().unwrap().join());
    }
}

fn serve(port: u16, answers: &Arc<Answers>, mode: &Arc<Mutex<Mode>>, stop: &Arc<AtomicBool>) {
    let mut listener = None;
    while !stop.load(Ordering::SeqCst) {
        if *mode.lock().unwrap() == Mode::Down {
            listener = None;
        } else if listener.is_none() {
            let bound = TcpListener::bind(("127.0.0.1", port)).unwrap();
            bound.set_nonblocking(true).unwrap();
            listener = Some(bound);
        }
        if let Some((stream, _)) = listener.as_ref().and_then(|listener| listener.accept().ok()) {
            let (answers, mode) = (Arc::clone(answers), Arc::clone(mode));
            let stop = Arc::clone(stop);
            // A client that goes away in the middle is no news.
            std::thread::spawn(move || drop(answer(stream, &answers, &mode, &stop)));
        } else {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn answer(
    stream: TcpStream,
    answers: &Answers,
    mode: &Mutex<Mode>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let tls = if *mode.lock().unwrap() == Mode::Stranger { &answers.strange } else { &answers.own };
    let tls = ServerConnection::new(Arc::clone(tls)).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(tls, stream);
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&buffer[..n]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let now = *mode.lock().unwrap();
    match now {
        Mode::Hanging => {
            while *mode.lock().unwrap() == now && !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            return Ok(());
        }
        Mode::Slow(millis) => std::thread::sleep(Duration::from_millis(millis)),
        _ => {}
    }
    let keys = head.starts_with("GET /jwks");
    let (user, email) = (name_in(&head), "user@example.test");
    let good = if keys { answers.jwks.clone() } else { profile(&user, email).to_string() };
    let (status, kind, body) = match now {
        Mode::Status(status) => (status, "application/json", "{}".to_owned()),
        Mode::WrongType => (200, "text/html", "<p>maintenance</p>".to_owned()),
        Mode::Another if keys => (200, "application/json", r#"{"keys":[]}"#.to_owned()),
        Mode::Another => (200, "application/json", profile("SOMEBODY.ELSE", email).to_string()),
        Mode::Huge => {
            (200, "application/json", json!({ "padding": "x".repeat(2 << 20) }).to_string())
        }
        _ => (200, "application/json", good),
    };
    let length = if now == Mode::Truncated { body.len() + 100 } else { body.len() };
    let also = "location: /elsewhere\r\nretry-after: 7\r\nconnection: close\r\n";
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n")?;
    write!(stream, "content-length: {length}\r\n{also}\r\n{body}")?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// A dam operator of SPK, whoever asks.
fn profile(user: &str, email: &str) -> Value {
    json!({
        "user-name": user.to_ascii_uppercase(), "email": email,
        "roles": { "SPK": ["dam_operator", "CWMS Users"] }, "ts-group-privileges": [],
    })
}

/// The user in the request's bearer, which a stand-in does not verify.
fn name_in(head: &str) -> String {
    use base64::Engine as _;
    let token = head.split("earer ").nth(1).unwrap_or_default();
    let part = token.split('.').nth(1).unwrap_or_default();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part);
    let claims: Value = serde_json::from_slice(&claims.unwrap_or_default()).unwrap_or_default();
    claims["preferred_username"].as_str().unwrap_or_default().to_owned()
}
