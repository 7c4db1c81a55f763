//! Streams that are cancelled before we saw them, as a burst of Envoy's time-outs makes them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_streams_reset_in_the_same_breath_does_not_end_the_connection() {
    let server = Server::start(Setup::default());
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut out, SETTINGS, 0, 0, &[]);
    // POST, http, the Check's path and an authority, in HPACK without compression.
    let path = b"/envoy.service.auth.v3.Authorization/Check";
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend_from_slice(path);
    block.extend_from_slice(&[0x01, 1, b'x']);
    for n in 0..400 {
        frame(&mut out, HEADERS, END_HEADERS, 2 * n + 1, &block);
        frame(&mut out, RST_STREAM, 0, 2 * n + 1, &8_u32.to_be_bytes());
    }
    frame(&mut out, PING, 0, 0, b"12345678");
    stream.write_all(&out).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.expect("the connection ended");
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            assert_ne!(head[3], GOAWAY, "{payload:?}");
            if (head[3], head[4] & ACK) == (PING, ACK) {
                return;
            }
        }
    });
    answered.await.expect("no answer to the ping");
    let answer = server.client().await.check(get("/a")).await.unwrap().into_inner();
    assert_eq!(code(&answer), 0);
    let events = server.events_when(1).await;
    assert!(events.iter().all(|e| e["reason"] == "cancelled" || e["outcome"] == "allow"));
    let start = Instant::now();
    while server.metrics.in_flight.get() > 0 {
        assert!(start.elapsed() < Duration::from_secs(3), "some wait for their deadline");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
