//! Configuration files as shipped, on a test's own ports.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::root;

/// A folder that is gone after the test, unless the test failed.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.0));
        }
    }
}

/// The ports of one world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) envoy: u16,
    pub(crate) envoy_admin: u16,
    pub(crate) check: u16,
    pub(crate) admin: u16,
    pub(crate) backend: u16,
}

/// The text of a file of the repository.
pub(crate) fn shipped(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Replaces `from`, which must be there.
pub(crate) fn replace(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in\n{text}");
    text.replace(from, to)
}

/// An Envoy file with every peer on loopback, on these ports.
pub(crate) fn envoy(text: &str, ports: Ports, socket: &Path) -> String {
    let mut text = text.to_owned();
    for (from, to) in [
        ("address: 0.0.0.0,", "address: 127.0.0.1,".to_owned()),
        ("address: portcullis,", "address: 127.0.0.1,".to_owned()),
        ("address: data-api,", "address: 127.0.0.1,".to_owned()),
        ("/run/portcullis/check.sock", socket.display().to_string()),
        ("port_value: 8080", format!("port_value: {}", ports.envoy)),
        ("port_value: 9901", format!("port_value: {}", ports.envoy_admin)),
        ("port_value: 9191", format!("port_value: {}", ports.check)),
        ("port_value: 7000", format!("port_value: {}", ports.backend)),
    ] {
        text = text.replace(from, &to);
    }
    text
}

/// The quickstart's configuration of Portcullis, on these ports and with the keys in `dir`.
pub(crate) fn portcullis(text: &str, ports: Ports, dir: &Path) -> String {
    let keys = dir.join("jwks.json").display().to_string();
    let text = replace(text, "../../target/quickstart/jwks.json", &keys);
    let text = replace(&text, "../../", &format!("{}/", root().display()));
    let text = replace(&text, ":9191", &format!(":{}", ports.check));
    let text = replace(&text, ":9190", &format!(":{}", ports.admin));
    replace(&text, ":7000", &format!(":{}", ports.backend))
}
