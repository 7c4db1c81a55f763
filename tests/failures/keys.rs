//! An issuer's keys.

use super::server::{Mode, Server};
use super::{Part, play};
use crate::harness::certs::Authority;
use crate::harness::{Ask, Setup, Token, World, tokens};
use crate::kit::token::Signer;

pub(super) const NAMES: &[&str] = &["keys", "keys, last_good_for 0s"];

struct Keys {
    name: &'static str,
    world: World,
    server: Server,
}

impl Keys {
    fn start(name: &'static str, more: &str) -> Self {
        let authority = Authority::new();
        let server = Server::start(&authority, tokens::rsa_alone());
        let keys = format!(
            "keys: {{ jwks_uri: \"https://localhost:{}/jwks\", ca_file: FOLDER/keys.pem, \
             timeout: 1s, refresh: 4s, refresh_max: 4s, refresh_min: 1s, cooldown: 1s{more} }} \
             # ../../target/quickstart/jwks.json",
            server.port
        );
        let world = Setup::bare()
            .envoy("timeout: 0.5s", "timeout: 6s")
            .portcullis("budget: 400ms", "budget: 3s")
            .portcullis("timeout: 350ms", "timeout: 2500ms")
            .portcullis("keys: { file: ../../target/quickstart/jwks.json }", &keys)
            .portcullis(
                "\nuser_context:\n",
                "\naudit: { directory: FOLDER/audit }\nuser_context:\n",
            )
            .file("keys.pem", &authority.pem())
            .start();
        Self { name, world, server }
    }
}

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

impl Part for Keys {
    fn name(&self) -> &'static str {
        self.name
    }

    fn dependency(&self) -> &'static str {
        "jwks:playground"
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn begin(&mut self, failure: &str) {
        self.server.turn(match failure {
            "down" | "unknown kid while down" => Mode::Down,
            "hanging" => Mode::Hanging,
            "500" => Mode::Status(500),
            "no JSON" => Mode::WrongType,
            "no usable key" => Mode::Another,
            "TLS fails" => Mode::Stranger,
            "unknown kid" => Mode::Good,
            other => panic!("{other}"),
        });
    }

    fn end(&mut self, _: &str) {
        self.server.turn(Mode::Good);
    }

    fn ask(&mut self, failure: &str) -> Ask {
        let signer = if failure.starts_with("unknown") { Signer::Ec } else { Signer::Rsa };
        Ask::get(OWN).bearer(&Token::of("dam.operator").signer(signer).sign())
    }

    fn look(&mut self, failure: &str) {
        let why = match failure {
            "down" | "unknown kid while down" => "no connection: nobody listens there",
            "TLS fails" => "no connection: TLS failed",
            "500" => "it answers with status 500",
            "no usable key" => "the key set holds no usable key",
            _ => return,
        };
        let why = format!("https://localhost:{}/jwks: {why}", self.server.port);
        let verbose = Ask::get("/ready?verbose").send(self.world.ports.admin).text();
        let log = self.world.portcullis.as_ref().unwrap().output();
        assert!(verbose.contains(&why) && log.contains(&why), "{why}: {verbose}\n{log}");
    }

    fn is_well(&mut self) -> bool {
        let ask = self.ask("");
        let answer = self.world.ask(ask);
        answer.status == 200 && answer.header("x-authz-degraded").is_empty()
    }
}

#[test]
fn s8_1_keys_serve_on_while_their_issuer_fails_and_are_marked() {
    play(&mut Keys::start("keys", ""));
}

#[test]
fn s8_1_keys_that_may_not_be_stale_are_unavailable() {
    play(&mut Keys::start("keys, last_good_for 0s", ", last_good_for: 0s"));
}
