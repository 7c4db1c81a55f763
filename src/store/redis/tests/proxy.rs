//! A proxy before a real server that can go wrong in every way that a network can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    /// Passes everything on.
    Pass,
    /// Takes connections and says nothing.
    Silent,
    /// Lets the handshake through and says nothing to commands.
    Handshake,
    /// Cuts replies in half and says no more.
    Half,
    /// Closes connections at once.
    Close,
}

const MODES: [Mode; 5] = [Mode::Pass, Mode::Silent, Mode::Handshake, Mode::Half, Mode::Close];

#[derive(Debug, Clone)]
pub(super) struct Proxy {
    pub(super) port: u16,
    mode: Arc<AtomicU8>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(super) async fn start(to: u16, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            mode: Arc::new(AtomicU8::new(mode as u8)),
            connections: Arc::default(),
        };
        let this = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                this.connections.fetch_add(1, Ordering::SeqCst);
                if this.mode() != Mode::Close {
                    tokio::spawn(this.clone().serve(client, to));
                }
            }
        });
        proxy
    }

    pub(super) fn turn(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn mode(&self) -> Mode {
        MODES[usize::from(self.mode.load(Ordering::SeqCst))]
    }

    /// How many connections came.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn serve(self, client: TcpStream, to: u16) {
        if self.mode() == Mode::Silent {
            return hang(client).await;
        }
        let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let up = self.clone().pass(from_client, to_server, true);
        let down = self.pass(from_server, to_client, false);
        tokio::join!(up, down);
    }

    async fn pass(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, up: bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
            let chunk = &buffer[..length];
            let is_command = chunk.windows(8).any(|w| w == b"GETRANGE");
            let chunk = match self.mode() {
                Mode::Close => return,
                Mode::Silent => return hang((from, to)).await,
                Mode::Handshake if up && is_command => return hang((from, to)).await,
                Mode::Half if !up && chunk[0] == b'$' => {
                    let _ = to.write_all(&chunk[..length / 2]).await;
                    return hang((from, to)).await;
                }
                _ => chunk,
            };
            if to.write_all(chunk).await.is_err() {
                return;
            }
        }
    }
}

/// Keeps `what` open and does nothing with it.
async fn hang<T>(what: T) {
    std::future::pending::<()>().await;
    drop(what);
}
