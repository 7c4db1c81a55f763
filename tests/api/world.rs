//! Portcullis with its decision API, and the user API behind it; no Envoy.

use std::process::Command;
use std::sync::Arc;

use portcullis::app::hash_of_key;
use serde_json::Value;

use crate::harness::files::{self, Ports};
use crate::harness::{Answer, Ask, Folder, Process, port, tokens};
use crate::kit::backend::{self, Backend};

/// Key of the caller that may everything.
pub(crate) const KEY: &str = "marker-key-of-the-data-api-0123456789abcdef";
/// Key of the caller that may nothing beyond asking.
pub(crate) const PLAIN_KEY: &str = "marker-key-of-the-status-page-0123456789ab";

/// Running parts. They end with the value.
pub(crate) struct Api {
    pub(crate) process: Process,
    pub(crate) backend: Arc<Backend>,
    pub(crate) ports: Ports,
    pub(crate) port: u16,
    _runtime: tokio::runtime::Runtime,
    _folder: Folder,
}

impl Api {
    pub(crate) fn start() -> Self {
        Self::with(|text| text)
    }

    /// With another configuration.
    pub(crate) fn with(change: impl Fn(String) -> String) -> Self {
        let folder = Folder::new();
        let dir = folder.path();
        tokens::write_keys(dir);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let backend = Backend::new(false, None);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let ports = Ports {
            envoy: port(),
            envoy_admin: port(),
            check: port(),
            admin: port(),
            backend: listener.local_addr().unwrap().port(),
        };
        runtime.spawn(backend::serve(listener, Arc::clone(&backend)));
        let api = port();
        let text =
            files::portcullis(&files::shipped("deploy/config/decision-api.yaml"), ports, dir);
        let mut text = files::replace(&text, ":9192", &format!(":{api}"));
        for (start, key) in [("blake3:5d", KEY), ("blake3:7d", PLAIN_KEY)] {
            let at = text.find(start).unwrap();
            text.replace_range(at..at + "blake3:".len() + 64, &hash_of_key(key));
        }
        // Timing is no part of these tests, and the machine may be loaded.
        let text = files::replace(&text, "budget: 2s", "budget: 10s");
        let text = files::replace(&text, "timeout: 1500ms", "timeout: 9s");
        let limit = "policy:\n  limits: { time: 5s }\n  paths:";
        let text = files::replace(&text, "policy:\n  paths:", limit);
        let config = folder.write("portcullis.yaml", &change(text));
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.arg("serve").arg("--config").arg(config);
        let mut process = Process::start("portcullis", dir, &mut command);
        let admin = ports.admin;
        process.wait_for(|| {
            Ask::get("/ready").try_send(admin).is_ok_and(|answer| answer.status == 200)
        });
        Self { process, backend, ports, port: api, _runtime: runtime, _folder: folder }
    }

    pub(crate) fn send(&self, ask: Ask) -> Answer {
        ask.send(self.port)
    }

    /// The API's audit events once there are `count` of them.
    pub(crate) fn events(&self, count: usize) -> Vec<Value> {
        let read = || -> Vec<Value> {
            let text = self.process.output();
            let lines = text.lines().filter(|line| line.starts_with("{\"schema\":"));
            let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            events.filter(|event| event["door"] == "api").collect()
        };
        for _ in 0..500 {
            if read().len() >= count {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // One too many would follow at once.
        std::thread::sleep(std::time::Duration::from_millis(50));
        read()
    }
}

/// `POST` of a JSON body.
pub(crate) fn post(target: &str, body: &Value) -> Ask {
    Ask::new("POST", target).header("content-type", "application/json").body(body.to_string())
}

/// One question.
pub(crate) fn ask(body: &Value) -> Ask {
    post("/authorize", body)
}

/// With the key of the caller that may everything.
pub(crate) fn keyed(ask: Ask) -> Ask {
    ask.header("x-api-key", KEY)
}
