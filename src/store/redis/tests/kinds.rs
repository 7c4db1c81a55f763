//! Each kind of Redis keeps the contract, and what each can go through.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::server::{Server, port};
use super::{LEAST, Redis, Sut, config, subscription, url};
use crate::store::contract::{self, Heard};

async fn keeps_the_contract(sut: &Sut) {
    contract::holds(&*sut.store, |by| Box::pin(tokio::time::sleep(by))).await;
    contract::tells(Arc::<Redis>::clone(&sut.store), Arc::<Redis>::clone(&sut.store)).await;
}

/// The least that a user must be allowed, and `more`.
fn allow(server: &Server, more: &str) {
    let least = format!("ACL SETUSER pdp on >marker {LEAST}");
    assert!(server.say(&format!("{least} {more}")).starts_with("+OK"));
}

fn sentinels(sentinel: &Server) -> serde_json::Value {
    json!({"username": "pdp", "password": "marker", "sentinels": {
        "addresses": [format!("127.0.0.1:{}", sentinel.port)],
        "master": "main",
    }})
}

/// A Sentinel that watches `master` and fails over on its own, within about a second.
fn sentinel(master: &Server) -> Server {
    let port = port();
    let folder = std::env::temp_dir().join(format!("portcullis-sentinel-{port}"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sentinel.conf");
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n",
        folder.display(),
        master.port
    );
    std::fs::write(&file, text).unwrap();
    Server::launch(port, folder, vec![file.display().to_string(), "--sentinel".to_owned()])
}

/// Three masters that share the slots.
pub(super) fn cluster() -> Vec<Server> {
    let start = || {
        let bus = port().to_string();
        Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus])
    };
    let nodes: Vec<Server> = (0..3).map(|_| start()).collect();
    let mut command = Command::new("redis-cli");
    command.args(["--cluster", "create"]);
    command.args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)));
    command.args(["--cluster-replicas", "0", "--cluster-yes"]);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    for node in &nodes {
        node.until("CLUSTER INFO", "cluster_state:ok");
    }
    nodes
}

/// A master with a replica that is in step, watched.
fn watched() -> (Server, Server, Server) {
    let master = Server::start(&[]);
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)]);
    replica.until("INFO replication", "master_link_status:up");
    let sentinel = sentinel(&master);
    sentinel.until("SENTINEL REPLICAS main", &replica.port.to_string());
    (master, replica, sentinel)
}

#[tokio::test]
async fn one_server_keeps_the_contract() {
    let server = Server::start(&[]);
    keeps_the_contract(&Sut::of(&server)).await;
    let unsigned = json!({"url": url(server.port), "unsigned": true, "unsigned_reason": "a test"});
    let mut unsigned = config(&unsigned);
    unsigned.key = None;
    keeps_the_contract(&Sut::new(&unsigned)).await;
    assert!(server.say("INFO clients").contains("connected_clients:"));
}

#[tokio::test]
async fn keys_begin_with_the_prefix_and_end_by_themselves() {
    let server = Server::start(&[]);
    let sut = Sut::new(&config(&json!({"url": url(server.port), "prefix": "mine:"})));
    let mut least = i64::MAX;
    for n in 0..20 {
        let key = format!("k{n}");
        sut.set(&key, "v").await.unwrap();
        let left = server.say(&format!("PTTL mine:{key}"));
        let left: i64 = left.trim().trim_start_matches(':').parse().unwrap();
        assert!((200_000..=300_000).contains(&left), "{left}");
        least = least.min(left);
    }
    assert!(least < 299_000, "lifetimes differ, so that they do not end together");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_sentinels_name_keeps_the_contract_and_may_change() {
    let (mut master, replica, sentinel) = watched();
    allow(&master, "+role");
    allow(&replica, "+role");
    let sut = Sut::new(&config(&sentinels(&sentinel)));
    keeps_the_contract(&sut).await;
    sut.set("before", "kept").await.unwrap();
    let (heard, mut messages) = Heard::new();
    let listening = subscription::listen(&sut, &heard);
    heard.subscribed_times(1).await;

    // A planned failover: the old master stays up and takes no writes any more.
    assert!(sentinel.say("SENTINEL FAILOVER main").starts_with("+OK"));
    replica.until("ROLE", "master");
    master.until("ROLE", "slave");
    sut.recovers("planned", Duration::from_secs(30)).await;
    assert!(replica.say("DBSIZE").trim() != ":0", "it is the new master that was written to");
    replica.until("INFO replication", "connected_slaves:1");

    // The master dies.
    let (mut dies, other) = (replica, &mut master);
    other.until("INFO replication", "master_link_status:up");
    dies.kill();
    other.until("ROLE", "master");
    sut.recovers("died", Duration::from_secs(30)).await;
    assert_eq!(sut.get("planned").await, Ok(Some("planned".to_owned())));
    subscription::hears(&sut, &mut messages).await;
    listening.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_the_contract_while_slots_move_and_nodes_hang() {
    let nodes = cluster();
    let address = |node: &Server| format!("127.0.0.1:{}", node.port);
    for node in &nodes {
        allow(node, "+cluster|slots +ping");
    }
    let who = json!({"cluster": [address(&nodes[0])], "username": "pdp", "password": "marker"});
    let sut = Sut::new(&config(&who));
    keeps_the_contract(&sut).await;
    for n in 0..100 {
        sut.set(&format!("k{n}"), &n.to_string()).await.unwrap();
    }
    let spread = nodes.iter().filter(|node| node.say("DBSIZE").trim() != ":0").count();
    assert_eq!(spread, 3, "keys lie on every node");

    let id = |node: &Server| {
        let answer = node.say("CLUSTER MYID");
        answer.lines().nth(1).unwrap().trim().to_owned()
    };
    let moved = Command::new("redis-cli")
        .args(["--cluster", "reshard", &address(&nodes[0]), "--cluster-yes"])
        .args(["--cluster-from", &id(&nodes[0]), "--cluster-to", &id(&nodes[1])])
        .args(["--cluster-slots", "2000"])
        .output()
        .unwrap();
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stdout));
    for n in 0..100 {
        assert_eq!(sut.get(&format!("k{n}")).await, Ok(Some(n.to_string())), "k{n}");
    }

    // The node that messages come by hangs: they come by another.
    let who = json!({
        "cluster": [address(&nodes[2]), address(&nodes[1])],
        "username": "pdp", "password": "marker", "connect_timeout": "1s",
    });
    let listener = Sut::new(&config(&who));
    let (heard, mut messages) = Heard::new();
    let listening = subscription::listen(&listener, &heard);
    heard.subscribed_times(1).await;
    subscription::hears(&sut, &mut messages).await;

    // One node hangs: its keys fail, others serve; all do once it is back.
    nodes[2].signal("STOP");
    heard.subscribed_times(2).await;
    let mut served = 0;
    for n in 0..20 {
        served += u32::from(sut.get(&format!("k{n}")).await.is_ok());
    }
    // Published at one node, whichever the cluster's client would choose.
    let by_one = json!({"url": url(nodes[0].port), "username": "pdp", "password": "marker"});
    subscription::hears(&Sut::new(&config(&by_one)), &mut messages).await;
    listening.abort();
    nodes[2].signal("CONT");
    assert!(served < 20, "a node hangs");
    for n in 0..100 {
        sut.recovers(&format!("k{n}"), Duration::from_secs(30)).await;
    }
}

#[tokio::test]
async fn tls_is_verified() {
    let name = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(name).unwrap();
    let server = Server::start(&[]);
    let write = |file: &str, text: String| {
        let path = server.folder.join(file);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = write("cert.pem", made.cert.pem());
    let key = write("key.pem", made.signing_key.serialize_pem());
    let port = super::server::port().to_string();
    let tls = Server::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &certificate,
        "--tls-auth-clients",
        "no",
    ]);
    let to = |host: &str, ca: &str| {
        let url = format!("rediss://{host}:{port}");
        Sut::new(&config(&json!({"url": url, "ca_file": ca, "timeout": "4s"})))
    };
    keeps_the_contract(&to("localhost", &certificate)).await;
    assert!(to("127.0.0.1", &certificate).get("a").await.is_err(), "another name");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = write("other.pem", other.cert.pem());
    assert!(to("localhost", &other).get("a").await.is_err(), "another authority");
    drop(tls);
}
