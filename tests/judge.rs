//! A load figure is void unless every answer was the expected one (`load/lib/judge.py`).

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::root;

const HEADER: &str = r#"{"user":{"id":"DAM.OPERATOR"},"constraints":{"allowed_offices":["SPK"]}}"#;

/// Reads what a run left as JSON, and prints why it is void.
const JUDGE: &str = r#"
import json, sys
from load.lib import judge
run = json.load(sys.stdin)
before, after = ({"metrics": judge.parse(run[when]["metrics"]), "stats": run[when]["stats"]}
                 for when in ("before", "after"))
print("; ".join(judge.judge(run["variant"], run["case"], run["result"], before, after)))
"#;

/// What Portcullis and the backend count after `n` requests through Envoy, all warm.
fn counted(n: u32) -> (String, String) {
    let looked = |cache: &str, result: &str, n: u32| {
        format!("portcullis_cache_requests_total{{cache=\"{cache}\",result=\"{result}\"}} {n}\n")
    };
    let checks = "portcullis_checks_total{outcome=\"allow\",reason=\"a\",route=\"r\"}";
    let of = |cache: &str| looked(cache, "hit", n) + &looked(cache, "miss", 1);
    let metrics = format!("{checks} {n}\n{}", ["token", "context", "decision"].map(of).concat());
    (metrics, json!({ "absent": 0, "values": { HEADER: n } }).to_string())
}

fn snapshot((metrics, stats): (String, String)) -> Value {
    json!({ "metrics": metrics, "stats": serde_json::from_str::<Value>(&stats).unwrap() })
}

/// Why a run of 1,000 requests is void in which `from` reads `to` in what is counted at its end.
fn judge(from: &str, to: &str) -> String {
    judge_of(&json!({ "ours": true, "spec": { "door": "envoy" } }), from, to)
}

fn judge_of(variant: &Value, from: &str, to: &str) -> String {
    let (metrics, stats) = counted(1005);
    assert!(metrics.contains(from) || stats.contains(from), "{from} is nowhere");
    let after = (metrics.replace(from, to), stats.replace(from, to));
    let run = json!({
        "variant": variant,
        "case": {
            "caches": ["token", "context", "decision"],
            "header": ["\"id\":\"DAM.OPERATOR\"", "\"allowed_offices\":[\"SPK\"]"],
        },
        "result": { "answered": 1000, "answers": [{ "status": 200, "count": 1000 }] },
        "before": snapshot(counted(5)), "after": snapshot(after),
    });
    let mut python = Command::new("python3");
    python.args(["-B", "-c", JUDGE]).current_dir(root());
    let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
    child.stdin.take().unwrap().write_all(run.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn s10_1_a_figure_is_void_unless_all_was_as_expected() {
    assert_eq!(judge("outcome", "outcome"), "");
    for (from, to, says) in [
        ("outcome=\"allow\"", "outcome=\"deny\"", "0 Checks were an allow"),
        ("route=\"r\"} 1005", "route=\"r\"} 905", "but 900 Checks"),
        ("\"decision\",result=\"hit\"} 1005", "\"decision\",result=\"hit\"} 1004", "999 hits"),
        ("\"context\",result=\"miss\"} 1", "\"context\",result=\"miss\"} 2", "1 misses of context"),
        ("\"absent\":0", "\"absent\":1", "none 1 times"),
        ("SPK", "SWT", "another context"),
        ("\":1005", "\":905", "but 900 headers"),
    ] {
        let said = judge(from, to);
        assert!(said.contains(says), "{from} to {to}: {said}");
    }
}

#[test]
fn s10_1_who_answers_as_portcullis_did_sets_its_header_too() {
    let yardstick = |spec: Value| json!({ "ours": false, "spec": spec });
    let like =
        yardstick(json!({ "door": "envoy", "server": "always_allow", "like": "portcullis" }));
    assert_eq!(judge_of(&like, "outcome", "outcome"), "");
    assert!(judge_of(&like, "SPK", "SWT").contains("another context"));
    assert!(judge_of(&like, "\":1005", "\":905").contains("but 900 headers"));
    let bare = yardstick(json!({ "door": "envoy", "server": "always_allow" }));
    assert_eq!(judge_of(&bare, "SPK", "SWT"), "", "it has no header to set");
}

#[test]
fn s10_1_the_yardstick_has_the_same_transport() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (ours, yardstick) = (text("src/serve/connection.rs"), text("load/always_allow.rs"));
    for name in ["MAX_HEADER_BYTES", "STREAM_WINDOW", "CONNECTION_WINDOW"] {
        let of = |text: &str| {
            let start = format!("const {name}: ");
            text.lines().find(|line| line.starts_with(&start)).map(str::to_owned)
        };
        assert!(of(&ours).is_some(), "{name} has gone from the door");
        assert_eq!(of(&yardstick), of(&ours));
    }
    for setting in [
        ".timer(TokioTimer",
        ".max_pending_accept_reset_streams(",
        ".max_header_list_size(",
        ".initial_stream_window_size(",
        ".initial_connection_window_size(",
        ".keep_alive_interval(",
    ] {
        assert!(ours.contains(setting) && yardstick.contains(setting), "{setting}");
    }
}
