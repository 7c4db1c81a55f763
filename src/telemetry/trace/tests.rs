use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderValue};
use tokio::net::TcpListener;

use super::*;
use crate::clock::Clock;
use crate::model::{Code, Headers, HumanDuration, Reason, Record};
use crate::telemetry::Metrics;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn config(to: &str) -> TracingConfig {
    TracingConfig {
        endpoint: Some(to.to_owned()),
        timeout: HumanDuration::secs(30),
        delay: HumanDuration::millis(1),
        batch: 64,
        queue: 256,
        ..TracingConfig::default()
    }
}

fn start(config: &TracingConfig, metrics: &Metrics) -> (Arc<Tracer>, Exporting) {
    let here = std::path::Path::new(".");
    Collector::read(config, here).unwrap().unwrap().start(metrics).unwrap()
}

fn metadata(traceparent: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("traceparent"),
        HeaderValue::from_bytes(traceparent.as_bytes()).unwrap(),
    )])
}

fn end(tracer: &Tracer, trace: &Trace, outcome: &'static str, took: Duration) -> bool {
    let reason = Reason::from(Code::Allowed);
    let mut record = Record { timeline: tracer.timeline(trace), ..Record::default() };
    for stage in ["route", "authn", "context", "policy", "respond"] {
        record.enter(stage);
    }
    let at = Clock::system().now();
    let (reason, record) = (&reason, &record);
    tracer.end(trace, &Ended { at, took, outcome, reason, status: 200, record, live: None })
}

/// Nobody sends: for tests of what is sampled.
fn idle(config: &TracingConfig) -> Arc<Tracer> {
    start(config, &Metrics::new()).0
}

#[tokio::test]
async fn the_caller_decides_and_without_one_the_ratio() {
    let ratio =
        |sampler, ratio| idle(&TracingConfig { sampler, ratio, ..config("http://[::1]:1") });
    let tracer = ratio(Sampler::ParentbasedTraceidratio, 0.25);
    let of = |text: &str| tracer.begin(&metadata(text));
    let trace = of(SAMPLED);
    assert!(trace.sampled);
    assert_eq!(trace.id(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(trace.parent, Some(0xb7ad_6b71_6920_3331));
    assert!(!of(&SAMPLED.replace("-01", "-00")).sampled);
    let taken = (0..10_000).filter(|_| tracer.begin(&HeaderMap::new()).sampled).count();
    assert!((2_200..2_800).contains(&taken), "{taken}");
    for (sampler, alone, asked, refused) in [
        (Sampler::AlwaysOn, true, true, true),
        (Sampler::AlwaysOff, false, false, false),
        (Sampler::ParentbasedAlwaysOn, true, true, false),
        (Sampler::ParentbasedAlwaysOff, false, true, false),
        (Sampler::Traceidratio, false, false, false),
        (Sampler::ParentbasedTraceidratio, false, true, false),
    ] {
        let tracer = ratio(sampler, 0.0);
        let of = |headers: HeaderMap| tracer.begin(&headers).sampled;
        let seen = (
            of(HeaderMap::new()),
            of(metadata(SAMPLED)),
            of(metadata(&SAMPLED.replace("-01", "-00"))),
        );
        assert_eq!(seen, (alone, asked, refused), "{sampler:?}");
    }
}

#[tokio::test]
async fn a_client_forces_nothing_unless_it_is_trusted() {
    let off = Sampler::ParentbasedAlwaysOff;
    let client = Headers::from_pairs([("traceparent", SAMPLED.as_bytes())]);
    for (trust_client, expected) in [(false, false), (true, true)] {
        let config = TracingConfig { sampler: off, trust_client, ..config("http://[::1]:1") };
        let tracer = idle(&config);
        let mut trace = tracer.begin(&HeaderMap::new());
        tracer.learn(&mut trace, &client);
        assert_eq!((trace.sampled, trace.parent.is_some()), (expected, expected));
        assert_eq!(tracer.begin_for_client(&client).sampled, expected);
        // The call's own word goes before the client's.
        let mut trace = tracer.begin(&metadata(&SAMPLED.replace("-01", "-00")));
        tracer.learn(&mut trace, &client);
        assert!(!trace.sampled);
    }
    // What is hostile in the call itself counts for nothing either.
    let tracer = idle(&TracingConfig { sampler: off, ..config("http://[::1]:1") });
    for text in ["", "00-zz", &"f".repeat(55), &format!("{SAMPLED},{SAMPLED}")] {
        assert!(!tracer.begin(&metadata(text)).sampled, "{text}");
    }
}

#[tokio::test]
async fn denials_errors_and_slow_checks_are_told_of_where_that_is_wanted() {
    let quiet = Sampler::AlwaysOff;
    let always = |denials, errors, slow| {
        let always = AlwaysConfig { denials, errors, slow };
        idle(&TracingConfig { sampler: quiet, always, ..config("http://[::1]:1") })
    };
    let seen = |tracer: &Tracer| {
        let (fast, slow) = (Duration::from_millis(1), Duration::from_millis(500));
        let of = |outcome, took| end(tracer, &tracer.begin(&metadata(SAMPLED)), outcome, took);
        [of("allow", fast), of("deny", fast), of("unavailable", fast), of("allow", slow)]
    };
    assert_eq!(seen(&always(false, false, None)), [false; 4]);
    assert_eq!(seen(&always(true, false, None)), [false, true, false, false]);
    assert_eq!(seen(&always(false, true, None)), [false, false, true, false]);
    let slow = Some(HumanDuration::millis(200));
    assert_eq!(seen(&always(false, false, slow)), [false, false, false, true]);
    // Nothing is kept of a Check that cannot be told of.
    let tracer = always(false, false, None);
    assert!(tracer.timeline(&tracer.begin(&HeaderMap::new())).is_none());
}

#[tokio::test]
async fn a_call_is_told_to_the_dependency_also_where_it_is_not_sampled() {
    let tracer = idle(&TracingConfig { sampler: Sampler::AlwaysOff, ..config("http://[::1]:1") });
    let trace = tracer.begin(&metadata(SAMPLED));
    let live = tracer.live(&trace, Clock::system().now());
    assert!(call().is_none(), "nothing is under way here");
    let mut headers = HeaderMap::new();
    enter(Some(live.current()), async {
        let task = carry(async { call().unwrap().inject(&mut headers) });
        stage("context", task).await;
    })
    .await;
    let text = headers["traceparent"].to_str().unwrap();
    assert!(text.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{text}");
    assert!(text.ends_with("-00"), "{text}");
}

/// Accepts connections, and says nothing.
async fn black_hole() -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (address, holding)
}

/// One worker thread, as on one CPU.
#[tokio::test]
async fn o02_a_collector_that_hangs_costs_counted_spans_and_no_time() {
    let (hole, _holding) = black_hole().await;
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (to, protocol) in [
        (format!("http://{hole}"), Protocol::Grpc),
        (format!("http://{hole}"), Protocol::HttpProtobuf),
        // TLS to what speaks none.
        (format!("https://{hole}"), Protocol::Grpc),
        (format!("http://{refused}"), Protocol::Grpc),
        (format!("http://{refused}"), Protocol::HttpProtobuf),
    ] {
        let metrics = Metrics::new();
        let (tracer, exporting) = start(&TracingConfig { protocol, ..config(&to) }, &metrics);
        // Many more than the queue holds, and nobody waits.
        for n in 0..2_000_u32 {
            assert!(end(&tracer, &tracer.begin(&metadata(SAMPLED)), "allow", Duration::ZERO));
            if n % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let limit = Duration::from_millis(300);
        let begun = Instant::now();
        exporting.stop(begun + limit).await;
        let took = begun.elapsed();
        assert!(took < limit + Duration::from_secs(5), "{to} {protocol:?}: {took:?}");
        let lost = metrics.spans.dropped.get() + metrics.spans.failed.get();
        assert_eq!((metrics.spans.exported.get(), lost), (0, 12_000), "{to} {protocol:?}");
        assert!(metrics.spans.dropped.get() > 0, "the queue is bounded");
    }
}
