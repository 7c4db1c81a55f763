//! Starts and stops the parts of a test, each on ports and in a folder of its own.

pub(crate) mod certs;
pub(crate) mod files;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod jaeger;
pub(crate) mod opa;
pub(crate) mod process;
pub(crate) mod redis;
pub(crate) mod sentinel;
pub(crate) mod tokens;
pub(crate) mod world;

pub(crate) use files::Folder;
pub(crate) use http::{Answer, Ask};
pub(crate) use opa::Opa;
pub(crate) use process::Process;
pub(crate) use tokens::Token;
pub(crate) use world::{Setup, World};

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A port of loopback on which nothing listens now, and that no other test of this process gets:
/// an Envoy shares its port with whoever binds it too, so a race would mix two tests' requests.
/// The ports lie below those that the system hands out by itself.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    loop {
        let next = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        let port = u16::try_from(20_000 + next).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The Envoy of these tests: `ENVOY`, else one on PATH, else fetched once.
pub(crate) fn envoy() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| found("find_envoy"));
    &PATH
}

/// The Envoy of that version, fetched once.
pub(crate) fn envoy_of(version: &str) -> PathBuf {
    // One at a time: two tests may want the same one.
    static FETCH: Mutex<()> = Mutex::new(());
    let _one = FETCH.lock().unwrap_or_else(PoisonError::into_inner);
    found(&format!("envoy_of {version}"))
}

/// The path that a function of `deploy/lib.sh` prints.
pub(crate) fn found(function: &str) -> PathBuf {
    // The binary lies in <target>/<profile>/; so the fetched Envoy is where scripts put it.
    let binary = Path::new(env!("CARGO_BIN_EXE_portcullis"));
    let found = Command::new("bash")
        .args(["-c", &format!("set -euo pipefail; . deploy/lib.sh; {function}")])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", binary.ancestors().nth(2).unwrap())
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
}

/// The keys in Redis of what Checks stored: all but those of invalidations.
pub(crate) fn records(server: &redis::Server) -> Vec<String> {
    let said = server.say("KEYS *");
    let keys = said.lines().map(str::trim).filter(|line| !line.starts_with(['$', '*', '-']));
    keys.filter(|key| !key.contains(":generation")).map(str::to_owned).collect()
}
