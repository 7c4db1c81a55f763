use super::*;
use crate::clock::Expiry;
use crate::model::{Digest, Ids};
use crate::policy::kept::Kept;
use crate::store::Cache;
use crate::store::measured::{ENTRIES, apart, resident, truthful};

#[test]
fn a_cached_decision_takes_what_is_accounted() {
    apart("policy::tests::memory::measured");
}

#[test]
#[ignore = "run in a process of its own"]
fn measured() {
    let (clock, revision) = (Clock::manual(0), Arc::<str>::from("r1"));
    let (now, ids, name) = (clock.now(), Ids::default(), Arc::from("x-auth-context"));
    let cache = Cache::new("test", 256 << 20, &Metrics::new());
    let before = resident();
    for n in 0..ENTRIES {
        let evaluation = Evaluation {
            id: ids.next_decision(),
            revision: Arc::clone(&revision),
            decided_at: now,
            expires: Some(Expiry::after(&now, std::time::Duration::from_mins(1))),
        };
        let context = json!({"policy": "timeseries", "user": {"id": format!("u-{n:08}"), "roles": ["Data Users"]},
            "constraints": {"offices": ["SPK", "SWT"], "window_exempt": false}});
        let mut decision = Decision::denied(Code::Allowed, evaluation);
        decision.headers =
            std::iter::once((Arc::clone(&name), context.to_string().into())).collect();
        let key = Digest::plain(&n.to_le_bytes());
        cache.insert(key, Kept { decision: Arc::new(decision), epoch: 0 });
    }
    truthful("decision", &cache, resident() - before);
}
