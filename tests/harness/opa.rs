//! A real OPA, as a server.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ask, Process};

/// On the path, where `go install` puts it, or where the tests' own tools are.
pub(crate) fn binary() -> PathBuf {
    let home = std::env::home_dir().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([home.join("go/bin")])
        .chain(
            Path::new(env!("CARGO_BIN_EXE_portcullis")).ancestors().nth(2).map(|t| t.join("tools")),
        )
        .map(|folder| folder.join("opa"))
        .find(|path| path.is_file())
        .expect("no opa: go install github.com/open-policy-agent/opa@v1.22.3")
}

/// An OPA server over policies, without their tests. Ends with the value.
#[derive(Debug)]
pub(crate) struct Opa {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Opa {
    /// Starts it on `port` with what is in `paths`, and waits until it answers.
    pub(crate) fn start(port: u16, folder: &Path, paths: &[&Path]) -> Self {
        let mut command = Self::command(&format!("127.0.0.1:{port}"));
        command.args(paths);
        Self::run(port, folder, &mut command)
    }

    /// Starts it on `port` with a folder as its bundle, whose `.manifest` may name a revision.
    pub(crate) fn bundle(port: u16, folder: &Path, bundle: &Path) -> Self {
        let mut command = Self::command(&format!("127.0.0.1:{port}"));
        command.args(["--set", "decision_logs.console=true", "--bundle"]).arg(bundle);
        Self::run(port, folder, &mut command)
    }

    /// The command that serves on `address`, without policies.
    pub(crate) fn command(address: &str) -> Command {
        let mut command = Command::new(binary());
        command.args(["run", "--server", "--skip-version-check", "--ignore", "*_test.rego"]);
        command.args(["--log-level", "error", "--addr", address]);
        command
    }

    /// Starts `command`, which serves on `port`, and waits until it answers.
    pub(crate) fn run(port: u16, folder: &Path, command: &mut Command) -> Self {
        let mut process = Process::start("opa", folder, command);
        process.wait_for(|| {
            let answer = Ask::get("/health").try_send(port);
            answer.is_ok_and(|answer| answer.status == 200)
        });
        Self { process, port }
    }
}
