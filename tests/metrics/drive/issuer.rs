//! A stand-in for an issuer whose key set changes and fails as a test wants.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// An issuer's server with its key set; it ends with the process.
pub(super) struct Issuer {
    pub(super) port: u16,
    pub(super) keys: Mutex<Value>,
    pub(super) broken: AtomicBool,
}

impl Issuer {
    pub(super) fn start(keys: Value) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let issuer = Arc::new(Self { port, keys: Mutex::new(keys), broken: AtomicBool::default() });
        let ours = Arc::clone(&issuer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let ours = Arc::clone(&ours);
                std::thread::spawn(move || drop(ours.answer(stream.unwrap())));
            }
        });
        issuer
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = [0; 4096];
        if stream.read(&mut buffer)? > 0 {
            let broken = self.broken.load(Ordering::SeqCst);
            let (status, body) = match self.keys.lock().unwrap().to_string() {
                _ if broken => ("500 Broken", String::new()),
                keys => ("200 OK", keys),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }
}
