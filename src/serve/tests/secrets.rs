//! No credential reaches a log, audit, a metric or an answer.

use tracing_subscriber::fmt::MakeWriter;

use super::*;

const MARKER: &str = "m4rk3r";

impl<'a> MakeWriter<'a> for Kept {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

// One thread, so that the subscriber of this test sees all of its tasks.
#[tokio::test(flavor = "current_thread")]
async fn a05_no_marker_in_logs_audit_metrics_or_answers() {
    let logs = Kept::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(logs.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let budget = CheckBudget { budget: HumanDuration::millis(60), ..CheckBudget::default() };
    let server = Server::start(Setup { budget, threads: 0, ..Setup::default() });
    let mut client = server.client().await;
    let mut answers = String::new();
    for path in ["/a", "/panic", "/panic-later", "/slow"] {
        let headers = ["authorization", "cookie", "x-api-key", "dpop"];
        let headers = headers.map(|name| (name.to_owned(), format!("Bearer {MARKER}")));
        let http = HttpRequest {
            id: format!("{MARKER} with a space"),
            path: format!("{path}?4000&access_token={MARKER}&code={MARKER}"),
            host: "api.example.test".to_owned(),
            headers: headers.into(),
            body: format!("{{\"password\":\"{MARKER}\"}}"),
            ..HttpRequest::default()
        };
        let answer = client.check(of(http)).await.unwrap().into_inner();
        let _ = std::fmt::Write::write_fmt(&mut answers, format_args!("{answer:?}"));
    }
    let audit = server.events();
    assert_eq!(audit.len(), 4);
    assert!(audit.iter().all(|event| event.get("subject").is_none()));
    let logs = String::from_utf8(logs.0.lock().unwrap().clone()).unwrap();
    assert!(logs.contains("a Check panicked"), "the log was seen: {logs}");
    let audit = format!("{audit:?}");
    let metrics = server.metrics.render().unwrap();
    for (place, text) in
        [("logs", &logs), ("audit", &audit), ("metrics", &metrics), ("answers", &answers)]
    {
        let line = text.lines().find(|line| line.contains(MARKER));
        assert_eq!(line, None, "in {place}");
        assert!(!text.contains("u-alice"), "the subject in {place}");
    }
}
