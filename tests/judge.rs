//! A load figure is void unless every answer was the expected one (`load/judge.py`).

use std::process::Command;

use crate::harness::{Folder, root};

const HEADER: &str = r#"{"user":{"id":"DAM.OPERATOR"},"constraints":{"allowed_offices":["SPK"]}}"#;

/// What one round of `load/compare` leaves: 1,000 requests, all warm.
fn round() -> Vec<(&'static str, String)> {
    let looked = |cache: &str, result: &str, n: u32| {
        format!("portcullis_cache_requests_total{{cache=\"{cache}\",result=\"{result}\"}} {n}\n")
    };
    let metrics = |n: u32| {
        let checks = "portcullis_checks_total{outcome=\"allow\",reason=\"a\",route=\"r\"}";
        let caches = ["token", "context", "decision"];
        let of = |cache: &str| looked(cache, "hit", n) + &looked(cache, "miss", 1);
        format!("{checks} {n}\n{}", caches.map(of).concat())
    };
    let stats = |n: u32| serde_json::json!({ "absent": 0, "values": { HEADER: n } }).to_string();
    let line = |name: &str| format!("1 {name} 1000 1.0 0.5 1.5 10 10 20 20\n");
    vec![
        ("rounds", ["alone", "allow", "portcullis"].map(line).concat()),
        ("metrics.before.1", metrics(5)),
        ("metrics.after.1", metrics(1005)),
        ("stats.before.1", stats(5)),
        ("stats.after.1", stats(1005)),
    ]
}

/// The verdict on a round in which `from` reads `to` in one file; the error where it is void.
fn judge(file: &str, from: &str, to: &str) -> Result<String, String> {
    let folder = Folder::new();
    for (name, text) in round() {
        let text = if name == file {
            assert!(text.contains(from), "{from} not in {text}");
            text.replace(from, to)
        } else {
            text
        };
        folder.write(name, &text);
    }
    let script = root().join("load/judge.py");
    let output = Command::new("python3").arg(script).arg(folder.path()).arg("16").output().unwrap();
    if output.status.success() {
        Ok(std::fs::read_to_string(folder.path().join("verdict")).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn s10_1_a_figure_is_void_unless_all_was_as_expected() {
    assert_eq!(judge("rounds", "1000", "1000"), Ok("warm_ratio=1.00\n".to_owned()));
    for (file, from, to, says) in [
        ("metrics.after.1", "outcome=\"allow\"", "outcome=\"deny\"", "no allow"),
        (
            "metrics.after.1",
            "reason=\"a\",route=\"r\"} 1005",
            "reason=\"a\",route=\"r\"} 905",
            "Checks",
        ),
        (
            "metrics.after.1",
            "\"decision\",result=\"hit\"} 1005",
            "\"decision\",result=\"hit\"} 1004",
            "decision",
        ),
        (
            "metrics.after.1",
            "\"context\",result=\"miss\"} 1",
            "\"context\",result=\"miss\"} 2",
            "context",
        ),
        ("stats.after.1", "\"absent\":0", "\"absent\":1", "headers"),
        ("stats.after.1", "SPK", "SWT", "another context"),
        ("stats.after.1", "1005", "905", "headers"),
    ] {
        let said = judge(file, from, to).expect_err(to);
        assert!(said.starts_with("void: ") && said.contains(says), "{file}: {to}: {said}");
    }
}
