use super::super::labels::CallOutcome;
use super::*;

#[test]
fn every_series_appears_with_its_labels() {
    let metrics = Metrics::new();
    metrics.check_series("allow", "allowed", "r").observe(Duration::from_micros(30));
    metrics.cache("token").hit.inc();
    metrics.calls.ended("user_api", CallOutcome::Timeout, Duration::from_secs(1));
    metrics.in_force.policies(Some("a"), 5);
    metrics.in_force.policies(Some("b"), 7);
    metrics.in_force.policies(Some("b"), 9);
    let text = metrics.render().unwrap();
    for line in [
        "portcullis_checks_total{outcome=\"allow\",reason=\"allowed\",route=\"r\"} 1",
        "portcullis_check_duration_seconds_count{outcome=\"allow\"} 1",
        "portcullis_cache_requests_total{cache=\"token\",result=\"hit\"} 1",
        "portcullis_dependency_calls_total{dependency=\"user_api\",outcome=\"timeout\"} 1",
        "portcullis_policy_revision_info{revision=\"b\"} 1",
        "portcullis_policy_loaded_timestamp_seconds{revision=\"b\"} 7",
        "portcullis_degraded_answers_total{mark=\"stale\",part=\"context\"} 0",
    ] {
        assert!(text.contains(line), "{line} not in\n{text}");
    }
    assert!(!text.contains("revision=\"a\""));
}
