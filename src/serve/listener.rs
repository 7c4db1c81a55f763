//! Addresses: bound before anything is served, released at the end.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use super::config::{Address, Endpoint, Listen};
use super::connection::{Accepted, Peer};
use super::control::messages::Door as Shown;
use super::tls::{Certificates, Tls};

const BACKLOG: u32 = 1024;
/// Mode of sockets: the owner and the group may connect; to the control door, the owner alone.
const SOCKET_MODE: u32 = 0o660;
const CONTROL_MODE: u32 = 0o600;

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    /// The address.
    pub address: String,
    /// What the system says.
    pub source: io::Error,
}

/// One bound address.
#[derive(Debug)]
pub struct Bound {
    pub(super) socket: Socket,
    pub(super) tls: Option<std::sync::Arc<Tls>>,
    /// Where it listens; with the port that was taken for port 0.
    pub endpoint: Endpoint,
}

/// Every door's bound addresses.
#[derive(Debug)]
pub struct Bounds {
    /// Of the check door.
    pub check: Vec<Bound>,
    /// Of the admin door.
    pub admin: Vec<Bound>,
    /// Of the decision API's door.
    pub api: Vec<Bound>,
    /// Of the control door.
    pub control: Vec<Bound>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "removes the path when dropped")] SocketPath),
}

/// A byte stream of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Binds every address of `listen`, or none.
///
/// # Errors
/// At the first address that cannot be bound.
pub fn bind(listen: &Listen) -> Result<Bounds, BindError> {
    let all = |door, list: &[Address]| {
        list.iter().map(|address| bind_one(door, address)).collect::<Result<Vec<_>, _>>()
    };
    Ok(Bounds {
        check: all("check", &listen.check)?,
        admin: all("admin", &listen.admin)?,
        api: all("api", &listen.api)?,
        control: all("control", &listen.control)?,
    })
}

impl Bounds {
    /// Where the check, the admin, the API's and the control door listen, for the log.
    #[must_use]
    pub fn places(&self) -> [Option<String>; 4] {
        [&self.check, &self.admin, &self.api, &self.control].map(|door| {
            let all: Vec<_> = door.iter().map(|bound| bound.endpoint.to_string()).collect();
            (!all.is_empty()).then(|| all.join(", "))
        })
    }

    /// Every address with its door's name.
    pub(super) fn shown(&self) -> Vec<Shown> {
        let doors = [
            ("check", &self.check),
            ("admin", &self.admin),
            ("api", &self.api),
            ("control", &self.control),
        ];
        let shown = |name: &str, bound: &Bound| Shown {
            name: name.to_owned(),
            address: bound.endpoint.to_string(),
        };
        doors.iter().flat_map(|(name, all)| all.iter().map(|bound| shown(name, bound))).collect()
    }

    /// The certificates of every address, to be replaced while it is served.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        let all = self.check.iter().chain(&self.admin).chain(&self.api).chain(&self.control);
        Certificates(all.filter_map(|bound| bound.tls.clone()).collect())
    }
}

fn bind_one(door: &'static str, address: &Address) -> Result<Bound, BindError> {
    let failed = |source| BindError { address: address.text().to_owned(), source };
    let tls = Tls::of(door, address);
    let tls = tls.map_err(|problem| failed(io::Error::other(problem.message)))?;
    let endpoint =
        address.endpoint().map_err(|problem| failed(io::Error::other(problem.message)))?;
    let mode = if door == "control" { CONTROL_MODE } else { SOCKET_MODE };
    let bound = match endpoint {
        Endpoint::Tcp(at) => bind_tcp(at),
        Endpoint::Unix(path) => bind_unix(&path, mode).map(|(listener, guard)| Bound {
            socket: Socket::Unix(listener, guard),
            endpoint: Endpoint::Unix(path),
            tls: None,
        }),
    };
    bound.map(|bound| Bound { tls, ..bound }).map_err(failed)
}

fn bind_tcp(at: std::net::SocketAddr) -> io::Result<Bound> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    let listener = socket.listen(BACKLOG)?;
    let endpoint = Endpoint::Tcp(listener.local_addr()?);
    Ok(Bound { socket: Socket::Tcp(listener), endpoint, tls: None })
}

/// Removes the socket's path, if it still names this socket.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The socket is made in a private directory, gets its mode there and is then linked to its
/// place: nobody can connect before the mode is right, and a link is never followed.
fn bind_unix(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketPath)> {
    remove_stale(path)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let private = Private::new(parent)?;
    let place = private.0.join("s");
    let listener = UnixListener::bind(&place)?;
    fs::set_permissions(&place, Permissions::from_mode(mode))?;
    fs::hard_link(&place, path)?;
    let metadata = fs::symlink_metadata(path)?;
    let guard = SocketPath { path: path.to_owned(), inode: (metadata.dev(), metadata.ino()) };
    Ok((listener, guard))
}

/// Removes a socket that nobody listens on; everything else in its place is an error.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if metadata.file_type().is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is a symbolic link"));
    }
    if !metadata.file_type().is_socket() {
        let text = "the path exists and is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it")),
    }
}

/// A directory that only we can enter, removed when dropped.
struct Private(PathBuf);

impl Private {
    fn new(parent: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("no free name");
        for n in 0..16_u8 {
            let path = parent.join(format!(".p{}.{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => last = error,
            }
            if last.kind() != io::ErrorKind::AlreadyExists {
                break;
            }
        }
        Err(last)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// An accepted connection that no event loop watches yet.
pub(super) enum Fresh {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    pub(super) async fn accept(&self) -> io::Result<Fresh> {
        match self {
            Self::Tcp(listener) => Ok(Fresh::Tcp(listener.accept().await?.0.into_std()?)),
            Self::Unix(listener, _) => Ok(Fresh::Unix(listener.accept().await?.0.into_std()?)),
        }
    }
}

impl Fresh {
    /// Has the runtime of this thread watch it.
    pub(super) fn watched(self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(stream) => {
                let stream = TcpStream::from_std(stream)?;
                // Answers are small and each is waited for. A peer that is gone already is seen
                // by its connection.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), None))
            }
            Self::Unix(stream) => {
                let stream = UnixStream::from_std(stream)?;
                let who = stream.peer_cred().map(|who| match who.pid() {
                    Some(pid) => format!("uid {} pid {pid}", who.uid()),
                    None => format!("uid {}", who.uid()),
                });
                Ok((Box::new(stream), who.ok().map(|who| Peer(who.into()))))
            }
        }
    }
}
