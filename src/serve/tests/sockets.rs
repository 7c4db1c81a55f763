//! Unix sockets: modes, stale ones, links, removal.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

use hyper_util::rt::TokioIo;
use tower::service_fn;

use super::*;

fn listen(path: &std::path::Path) -> Listen {
    let at = format!("unix:{}", path.display());
    let listen = serde_json::json!({ "check": [at], "admin": ["127.0.0.1:0"] });
    serde_json::from_value(listen).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_6_a_unix_socket_serves_has_its_mode_and_is_removed() {
    let folder = scratch("serves");
    let path = folder.join("check.sock");
    let sockets = vec![format!("unix:{}", path.display())];
    let server = Server::start(Setup { sockets, ..Setup::default() });
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o660);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
    let socket = path.clone();
    let connector = service_fn(move |_: ::http::Uri| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Peer::from_static("http://unix").connect_with_connector(connector).await.unwrap();
    let answer = AuthorizationClient::new(channel).check(get("/a")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0);
    server.end().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn s8_6_only_a_socket_without_listener_is_replaced() {
    let folder = scratch("stale");
    let path = folder.join("check.sock");
    // Stale: bound once, listened on by nobody.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = bind(&listen(&path)).unwrap();
    let error = bind(&listen(&path)).unwrap_err().to_string();
    assert!(error.contains("another process listens"), "{error}");
    drop(first);
    assert!(!path.exists());
    fs::write(&path, "precious").unwrap();
    assert!(bind(&listen(&path)).unwrap_err().to_string().contains("no socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn s8_6_a_symbolic_link_is_never_followed() {
    let folder = scratch("link");
    let (path, target) = (folder.join("check.sock"), folder.join("target"));
    symlink(&target, &path).unwrap();
    assert!(bind(&listen(&path)).unwrap_err().to_string().contains("symbolic link"));
    drop(std::os::unix::net::UnixListener::bind(&target).unwrap());
    assert!(bind(&listen(&path)).is_err());
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink() && target.exists());
}

#[tokio::test]
async fn a_socket_that_took_our_place_is_not_removed() {
    let folder = scratch("taken");
    let path = folder.join("check.sock");
    let bounds = bind(&listen(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    let _theirs = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(bounds);
    assert!(path.exists());
}
