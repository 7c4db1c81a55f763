//! What the engine promises, on policies written for it.

mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Bundle, EvalError, Limits};
use crate::model::Problem;

const LIMITS: Limits = Limits { time: Duration::from_secs(5), memory: 64 << 20 };

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rego-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let folder = Self(std::env::temp_dir().join(name));
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join("p").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn load(&self) -> Result<Arc<Bundle>, Vec<Problem>> {
        Bundle::load(&[PathBuf::from("p")], &self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn bundle(policy: &str) -> Result<Arc<Bundle>, Vec<Problem>> {
    Folder::new(&[("a.rego", policy)]).load()
}

fn eval(policy: &str, input: &str) -> Result<Option<serde_json::Value>, EvalError> {
    eval_within(policy, input, LIMITS)
}

fn eval_within(
    policy: &str,
    input: &str,
    limits: Limits,
) -> Result<Option<serde_json::Value>, EvalError> {
    bundle(policy).unwrap().rule("data.a.x", true).unwrap().eval(input, limits)
}

/// The one problem that loading `policy` finds.
fn refusal(policy: &str) -> String {
    let problems = bundle(policy).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].message.clone()
}

mod allowed;
mod limits;
