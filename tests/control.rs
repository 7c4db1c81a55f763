//! The control door with the real binary: three replicas over one Redis, and the command line.

mod calls;
mod replicas;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::redis::Server;
use crate::harness::{Ask, Process, Setup, Token, World, grpc, port};

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";
const ISSUER: &str = "https://idp.playground.test";
const USER: &str = "dam.operator";
/// What no delay of a loaded machine exceeds.
const PATIENCE: Duration = Duration::from_secs(30);

/// One of several processes of a deployment.
struct Replica {
    check: u16,
    admin: u16,
    socket: PathBuf,
    /// The first is the world's own.
    _process: Option<Process>,
}

/// The quickstart with a control door and, with its port, a Redis.
fn setup(redis: Option<u16>) -> Setup {
    let store = redis.map_or_else(String::new, |port| {
        format!(
            "store:\n  redis:\n    url: redis://127.0.0.1:{port}\n    username: r1\n    \
             password: marker-redis\n    key: {}\n    timeout: 2s\n",
            "marker-".repeat(5)
        )
    });
    let admin = "  admin: [\"127.0.0.1:9190\"]\n";
    Setup::quickstart()
        .unhurried()
        .portcullis(admin, &format!("{admin}  control: [\"unix:FOLDER/r1.sock\"]\n{store}"))
}

impl Replica {
    fn of(world: &World) -> Self {
        let socket = world.folder().join("r1.sock");
        Self { check: world.ports.check, admin: world.ports.admin, socket, _process: None }
    }

    /// One more, by the world's configuration.
    fn start(world: &World, name: &'static str) -> Self {
        let (check, admin) = (port(), port());
        let text = std::fs::read_to_string(world.folder().join("portcullis.yaml")).unwrap();
        let text = text
            .replace(&format!(":{}", world.ports.check), &format!(":{check}"))
            .replace(&format!(":{}", world.ports.admin), &format!(":{admin}"))
            .replace("username: r1", &format!("username: {name}"))
            .replace("r1.sock", &format!("{name}.sock"));
        let path = world.folder().join(format!("{name}.yaml"));
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.arg("serve").arg("--config").arg(path);
        let mut process = Process::start(name, world.folder(), &mut command);
        process.wait_for(|| Ask::get("/ready").try_send(admin).is_ok_and(|a| a.status == 200));
        let socket = world.folder().join(format!("{name}.sock"));
        Self { check, admin, socket, _process: Some(process) }
    }

    /// The HTTP status of a Check of that user's token.
    fn status(&self, token: &str) -> i32 {
        let bearer = format!("Bearer {token}");
        let request = grpc::get(OWN, &[("authorization", bearer.as_bytes())]);
        grpc::status(&grpc::check(self.check, &request))
    }

    fn control(&self, args: &[&str]) -> Output {
        control(&format!("unix:{}", self.socket.display()), args)
    }

    /// What the command says.
    fn invalidates(&self, args: &[&str]) -> String {
        let args: Vec<_> = std::iter::once("invalidate").chain(args.iter().copied()).collect();
        let output = self.control(&args);
        assert!(output.status.success(), "{output:?}");
        said(&output)
    }

    /// A metric without labels, or with exactly these.
    fn metric(&self, series: &str) -> f64 {
        let text = Ask::get("/metrics").send(self.admin).text();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{series} not in {text}")).parse().unwrap()
    }

    fn is_subscribed(&self) -> bool {
        self.metric("portcullis_subscription_up") > 0.5
    }
}

fn control(address: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["control", "--address", address]).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    format!("{out}{err}")
}

/// How long it took until `done`.
fn until(what: &str, done: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// The user API's word: the user has his role, or has lost it.
fn rights(world: &World, has: bool) {
    let less = json!({ "user-name": "DAM.OPERATOR", "email": "d@example.test",
        "roles": {"SPK": ["CWMS Users"]}, "ts-group-privileges": [] });
    *world.backend.user_profile.lock().unwrap() = (!has).then_some(less);
}

fn token() -> String {
    Token::of(USER).sign()
}
