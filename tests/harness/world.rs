//! Envoy, Portcullis and the backend, together.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::certs::Authority;
use super::files::{self, Folder, Ports};
use super::{Answer, Ask, Process, envoy, envoy_of, port, tokens};
use crate::kit::backend::{self, Backend};

/// What a world is made of.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    envoy: String,
    portcullis: Option<String>,
    files: Vec<(String, String)>,
    version: Option<String>,
    hurried: bool,
}

impl Setup {
    /// An Envoy file of the repository, and Portcullis with the quickstart's configuration.
    pub(crate) fn of(envoy: &str) -> Self {
        let portcullis = Some(files::shipped("deploy/config/quickstart.yaml"));
        let (envoy, files) = (files::shipped(envoy), Vec::new());
        Self { envoy, portcullis, files, version: None, hurried: false }
    }

    /// The quickstart.
    pub(crate) fn quickstart() -> Self {
        Self::of("envoy/quickstart.yaml")
    }

    /// An Envoy that protects nothing by itself.
    pub(crate) fn bare() -> Self {
        Self::of("tests/data/envoy-bare.yaml")
    }

    /// On the Envoy of that version.
    pub(crate) fn on(self, version: &str) -> Self {
        Self { version: Some(version.to_owned()), ..self }
    }

    /// Nobody answers the Checks.
    pub(crate) fn without_portcullis(self) -> Self {
        Self { portcullis: None, ..self }
    }

    /// With another text in the Envoy file.
    pub(crate) fn envoy(self, from: &str, to: &str) -> Self {
        Self { envoy: files::replace(&self.envoy, from, to), ..self }
    }

    /// With another text in Portcullis' configuration.
    pub(crate) fn portcullis(self, from: &str, to: &str) -> Self {
        Self { portcullis: self.portcullis.map(|text| files::replace(&text, from, to)), ..self }
    }

    /// With time for everything in the quickstart's configuration: for tests that are not about
    /// deadlines and shall pass on a loaded machine.
    pub(crate) fn unhurried(self) -> Self {
        let policies = "  paths: [../../policies/cwms]\n";
        self.portcullis("check: { budget: 400ms", "check: { budget: 8s")
            .portcullis("timeout: 350ms", "timeout: 7s")
            .portcullis(policies, &format!("{policies}  limits: {{ time: 5s }}\n"))
    }

    /// With the time limits that the files ship with, for tests of those.
    pub(crate) fn hurried(self) -> Self {
        Self { hurried: true, ..self }
    }

    /// A loaded machine is no reason to fail: where a test did not set the time of a Check, it is
    /// long, here and in Envoy.
    fn patient(mut self) -> Self {
        const BUDGET: &str = "check: { budget: 400ms";
        let Some(text) = self.portcullis.as_mut().filter(|text| text.contains(BUDGET)) else {
            return self;
        };
        if !self.hurried {
            *text = text.replace(BUDGET, "check: { budget: 9s");
            *text = text.replace("timeout: 350ms", "timeout: 8s");
            for short in ["0.5s", "0.25s"] {
                self.envoy = self.envoy.replace(&format!(" timeout: {short}\n"), " timeout: 12s\n");
            }
        }
        self
    }

    /// With a file in its folder, which texts call `FOLDER`.
    pub(crate) fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Starts it and waits until all of it is ready.
    pub(crate) fn start(self) -> World {
        World::start(self.patient())
    }
}

/// Running parts. They end with the value.
pub(crate) struct World {
    // Dropped in this order: Envoy first, the folder last.
    pub(crate) envoy: Process,
    pub(crate) portcullis: Option<Process>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) ports: Ports,
    /// Signed what is in the folder `tls`.
    pub(crate) authority: Authority,
    _runtime: tokio::runtime::Runtime,
    folder: Folder,
}

impl World {
    fn start(setup: Setup) -> Self {
        let folder = Folder::new();
        let dir = folder.path();
        tokens::write_keys(dir);
        for (name, text) in &setup.files {
            folder.write(name, text);
        }
        let here = dir.display().to_string();
        let authority = Authority::new();
        authority.write(&dir.join("tls"));
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

        let portcullis = setup.portcullis.map(|text| {
            let text = files::portcullis(&text, ports, dir);
            let text = text.replace("SOCKET", &dir.join("check.sock").display().to_string());
            let text = text.replace("FOLDER", &here);
            folder.write("portcullis.yaml", &text);
            start_portcullis(dir, ports)
        });

        let text = files::envoy(&setup.envoy, ports, &dir.join("check.sock"));
        let text = text.replace("/etc/envoy/tls", &dir.join("tls").display().to_string());
        let config = folder.write("envoy.yaml", &text.replace("FOLDER", &here));
        let binary = setup.version.map_or_else(|| envoy().to_owned(), |v| envoy_of(&v));
        let mut command = Command::new(binary);
        command.arg("-c").arg(config).args(["--use-dynamic-base-id", "--concurrency", "1"]);
        command.args(["--log-level", "warning", "--file-flush-interval-msec", "20"]);
        let mut process = Process::start("envoy", dir, &mut command);
        process.wait_for(|| is_ready(ports.envoy_admin));
        Self { envoy: process, portcullis, backend, ports, authority, _runtime: runtime, folder }
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Sends a request through Envoy.
    pub(crate) fn ask(&self, ask: Ask) -> Answer {
        ask.send(self.ports.envoy)
    }

    /// Envoy's count of Checks that ended as `ok`, `denied` or `error`.
    pub(crate) fn counted(&self, result: &str) -> u64 {
        let name = format!("http.ingress.ext_authz.{result}");
        let answer = Ask::get(&format!("/stats?filter={name}")).send(self.ports.envoy_admin);
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name} not in {text}")).parse().unwrap()
    }

    /// Envoy's counts of Checks: ok, denied, error.
    pub(crate) fn counts(&self) -> [u64; 3] {
        ["ok", "denied", "error"].map(|result| self.counted(result))
    }

    /// Portcullis' metrics as text.
    pub(crate) fn metrics(&self) -> String {
        Ask::get("/metrics").send(self.ports.admin).text()
    }

    /// The sum of the metric's series that have all of these label texts.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.metrics();
        let of = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        // `name{labels} 1` or `name 1`, perhaps with an exemplar after it.
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let rest = rest.split_once("} ").map_or(rest, |(_, rest)| rest);
            rest.split_whitespace().next()?.parse::<f64>().ok()
        };
        text.lines().filter(of).filter_map(value).sum()
    }

    /// Every line that audit wrote to the folder `audit`, as JSON.
    pub(crate) fn audited(&self) -> Vec<serde_json::Value> {
        let files = std::fs::read_dir(self.folder().join("audit")).into_iter().flatten();
        let lines = |file: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let parse =
                |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            text.lines().map(parse).collect::<Vec<_>>()
        };
        files.flat_map(lines).collect()
    }

    /// Starts Portcullis once more, after [`World::end_portcullis`].
    pub(crate) fn start_portcullis(&mut self) {
        self.portcullis = Some(start_portcullis(self.folder.path(), self.ports));
    }

    /// Ends Portcullis as an orchestrator does.
    pub(crate) fn end_portcullis(&mut self) {
        let mut process = self.portcullis.take().unwrap();
        process.signal("TERM");
        let status = process.ended(Duration::from_secs(15));
        assert!(status.success(), "{status}");
    }
}

fn start_portcullis(dir: &std::path::Path, ports: Ports) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let config = dir.join("portcullis.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    if text.contains("\npolicy:") && !text.contains("limits: { time") {
        // An unoptimised interpreter takes more CPU time than the limit allows for.
        command.env("PORTCULLIS__POLICY__LIMITS__TIME", "2s");
    }
    command.arg("serve").arg("--config").arg(config);
    let mut process = Process::start("portcullis", dir, &mut command);
    process.wait_for(|| is_ready(ports.admin));
    process
}

fn is_ready(admin: u16) -> bool {
    Ask::get("/ready").try_send(admin).is_ok_and(|answer| answer.status == 200)
}
