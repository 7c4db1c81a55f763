//! Prometheus' own tool for rules and metrics.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::harness::found;

static PROMTOOL: LazyLock<PathBuf> = LazyLock::new(|| found("find_promtool"));

/// Runs promtool; what it says where it fails.
pub(super) fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(&*PROMTOOL)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(text.concat()) } else { Err(text.concat()) }
}
