//! The end: within the grace time, whatever peers do.

use tokio::io::AsyncWriteExt as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;

const GRACE: Duration = Duration::from_millis(1500);

/// A grace time that a stall of the machine does not use up.
const LONG: Duration = Duration::from_secs(8);

fn patient() -> Setup {
    let drain = Drain { grace: HumanDuration::secs(LONG.as_secs()), ..Drain::default() };
    Setup { drain, ..Setup::default() }
}

async fn health(client: &mut HealthClient<Channel>) -> i32 {
    let request = HealthCheckRequest { service: String::new() };
    client.check(request).await.unwrap().into_inner().status
}

async fn serving(server: &Server) -> HealthClient<Channel> {
    let mut client = HealthClient::new(server.channel().await);
    while health(&mut client).await != 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_checks_in_flight_finish_and_the_rest_ends_early() {
    let server = Server::start(patient());
    let mut client = server.client().await;
    client.check(get("/a")).await.unwrap();
    let mut late = client.clone();
    let under_way = tokio::spawn(async move { late.check(get("/slow?1000")).await });
    while server.metrics.in_flight.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let address = server.address();
    let (drained, took, events) = server.end().await;
    assert_eq!(code(&under_way.await.unwrap().unwrap().into_inner()), 0);
    assert_eq!(drained, Drained { complete: true, flushed: true });
    assert!(took < LONG / 2, "an idle keep-alive peer is no reason: {took:?}");
    assert_eq!(events.len(), 2, "also the one that finished while draining");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nothing listens");
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_peers_that_send_nothing_or_a_preface_hold_nothing_up() {
    let server = Server::start(patient());
    let mut open = Vec::new();
    for opening in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b"PRI"] {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(opening).await.unwrap();
        open.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (drained, took, _) = server.end().await;
    assert!(drained.flushed && took < LONG, "{took:?}");
    drop(open);
}

/// A client on a thread of its own that stops for good once its call is under way, like a
/// stopped process: its socket stays open, and nobody reads it or answers a ping.
struct Stopped {
    thread: Option<std::thread::JoinHandle<()>>,
    resume: std::sync::mpsc::Sender<()>,
}

impl Stopped {
    fn start(server: &Server, path: &'static str) -> Self {
        let (address, metrics) = (server.address(), server.metrics.clone());
        let (resume, wait) = std::sync::mpsc::channel::<()>();
        let (stops, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            runtime.block_on(async {
                let peer = Peer::try_from(format!("http://{address}")).unwrap();
                let mut client = AuthorizationClient::new(peer.connect().await.unwrap());
                tokio::spawn(async move { client.check(get(path)).await });
                while metrics.in_flight.get() == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            stops.send(()).unwrap();
            let _ = wait.recv();
            drop(runtime);
        });
        // Before it has stopped it would still answer a drain that begins.
        stopped.recv().unwrap();
        Self { thread: Some(thread), resume }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.resume.send(());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_a_peer_that_stopped_holds_nothing_up() {
    let server = Server::start(patient());
    let stopped = Stopped::start(&server, "/slow?2000");
    let (drained, took, events) = server.end().await;
    assert_eq!(drained, Drained { complete: false, flushed: true });
    assert!(took < LONG, "{took:?}");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["outcome"], "allow", "its Check finished all the same");
    drop(stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_a_check_that_outlasts_the_grace_time_is_cut_and_audited() {
    let server = Server::start(Setup::default());
    let stopped = Stopped::start(&server, "/slow?4000");
    let (drained, took, events) = server.end().await;
    assert_eq!(drained, Drained { complete: false, flushed: true });
    assert!(took < GRACE, "{took:?}");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["reason"], "cancelled");
    drop(stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_the_first_signal_drains_and_the_second_ends_at_once() {
    let shutdown = Shutdown::on_signals().unwrap();
    let send = |signal: &str| {
        let pid = std::process::id().to_string();
        std::process::Command::new("kill").args([signal, &pid]).status().unwrap()
    };
    assert!(send("-TERM").success());
    shutdown.drain.cancelled().await;
    assert!(!shutdown.now.is_cancelled());
    assert!(send("-INT").success());
    shutdown.now.cancelled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_health_says_not_serving_first_and_watchers_hold_nothing_up() {
    let drain = Drain { grace: HumanDuration::secs(8), notice: HumanDuration::millis(1000) };
    let server = Server::start(Setup { drain, ..Setup::default() });
    let mut probe = serving(&server).await;
    let mut client = server.client().await;
    let watch = HealthCheckRequest { service: String::new() };
    let mut watch = probe.watch(watch).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
    let start = Instant::now();
    server.shutdown.begin();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 2, "told at once");
    assert_eq!(health(&mut probe).await, 2);
    let answer = client.check(get("/a")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0, "still answered within the notice");
    let drained = server.ended.await.unwrap();
    assert!(drained.flushed && start.elapsed() < LONG, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_a_second_signal_ends_at_once() {
    let drain = Drain { grace: HumanDuration::secs(60), ..Drain::default() };
    let server = Server::start(Setup { drain, ..Setup::default() });
    let mut client = server.client().await;
    let under_way = tokio::spawn(async move { client.check(get("/slow?9000")).await });
    while server.metrics.in_flight.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (start, shutdown) = (Instant::now(), server.shutdown.clone());
    shutdown.begin();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (drained, _, events) = server.end().await;
    assert!(!drained.complete && drained.flushed);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(events.len(), 1);
    assert!(under_way.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a02_every_answer_sent_before_the_signal_is_in_audit() {
    let server = Server::start(Setup::default());
    let mut client = server.client().await;
    for _ in 0..1000 {
        client.check(get("/a")).await.unwrap();
    }
    let (drained, _, events) = server.end().await;
    assert!(drained.flushed);
    assert_eq!(events.len(), 1000);
}

/// Never takes a byte.
struct Stuck;

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        loop {
            std::thread::park();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a02_an_audit_sink_that_hangs_does_not_hold_up_the_exit() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let start = runtime.block_on(async {
        let server = Server::start_with(Setup::default(), Box::new(Stuck));
        server.client().await.check(get("/a")).await.unwrap();
        let start = Instant::now();
        server.shutdown.begin();
        let drained = server.ended.await.unwrap();
        assert!(!drained.flushed);
        start
    });
    // As the process does: the runtime ends, and nothing of it may wait for the sink.
    drop(runtime);
    assert!(start.elapsed() < GRACE, "{:?}", start.elapsed());
}
