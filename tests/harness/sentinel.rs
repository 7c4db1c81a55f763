//! A Redis that is watched.

use super::redis::{Server, port};

/// A master with a replica in step and a Sentinel that fails over on its own.
pub(crate) fn watched() -> (Server, Server, Server) {
    let master = Server::start(&[]);
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)]);
    replica.until("INFO replication", "master_link_status:up");
    let port = port();
    let folder = std::env::temp_dir().join(format!("portcullis-watching-{port}"));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sentinel.conf");
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n",
        folder.display(),
        master.port
    );
    std::fs::write(&file, text).unwrap();
    let args = vec![file.display().to_string(), "--sentinel".to_owned()];
    let sentinel = Server::launch(port, folder, args);
    sentinel.until("SENTINEL REPLICAS main", &replica.port.to_string());
    (master, replica, sentinel)
}
