//! Starts and stops the parts of a test, each on ports and in a folder of its own.

pub(crate) mod files;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod process;
pub(crate) mod tokens;
pub(crate) mod world;

pub(crate) use files::Folder;
pub(crate) use http::{Answer, Ask};
pub(crate) use process::Process;
pub(crate) use tokens::Token;
pub(crate) use world::{Setup, World};

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A port of loopback on which nothing listens now.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The Envoy of these tests: `ENVOY`, else one on PATH, else fetched once.
pub(crate) fn envoy() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        // The binary lies in <target>/<profile>/; so the fetched Envoy is where scripts put it.
        let binary = Path::new(env!("CARGO_BIN_EXE_portcullis"));
        let script = "set -euo pipefail; . deploy/lib.sh; find_envoy";
        let found = Command::new("bash")
            .args(["-c", script])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", binary.ancestors().nth(2).unwrap())
            .output()
            .unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        PathBuf::from(String::from_utf8(found.stdout).unwrap().trim())
    });
    &PATH
}
