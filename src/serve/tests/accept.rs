//! An accept error ends no listener.

use super::*;

#[test]
fn s8_6_too_many_open_files_end_no_listener() {
    // A limit of open files is the process's, so this runs in one of its own.
    let this = std::env::current_exe().unwrap();
    let name = "serve::tests::accept::within_few_open_files";
    let script = format!("ulimit -n 64 && exec '{}' --ignored --exact {name}", this.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "run by the test above, under a limit of open files"]
async fn within_few_open_files() {
    let server = Server::start(Setup::default());
    let mut open = Vec::new();
    // Both ends are in this process; when the client meets the limit, the server does too.
    while let Ok(stream) = tokio::net::TcpStream::connect(server.address()).await {
        open.push(stream);
        assert!(open.len() < 64, "no limit");
    }
    let failed = "portcullis_accept_errors_total{door=\"check\"}";
    for _ in 0..100 {
        if server.metrics.render().unwrap().contains(failed) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(server.metrics.render().unwrap().contains(failed), "accepting failed");
    open.clear();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = server.client().await.check(get("/a")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0);
}
