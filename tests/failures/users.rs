//! The user API.

use super::server::{Mode, Server};
use super::{Part, play};
use crate::harness::certs::Authority;
use crate::harness::{Ask, Setup, Token, World};

pub(super) const NAMES: &[&str] = &["user API, closed", "user API, stale"];

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

/// The quickstart with time for slow machines, `server` as its user API, and audit in a folder.
pub(super) fn setup(server: &Server, authority: &Authority, more: &str) -> Setup {
    let api = format!("https://localhost:{}/user/profile # not :7000", server.port);
    let sections = "audit: { directory: FOLDER/audit }\nuser_context:\n  ttl: 1s\n  \
                    unknown_ttl: 1s\n  refresh_ahead: 0s\n";
    Setup::bare()
        .envoy("timeout: 0.5s", "timeout: 6s")
        .portcullis("budget: 400ms", "budget: 3s")
        .portcullis("timeout: 350ms", "timeout: 1500ms\n    ca_file: FOLDER/user-api.pem")
        .portcullis("http://127.0.0.1:7000/user/profile", &api)
        .portcullis("\nuser_context:\n", &format!("\n{sections}"))
        .portcullis("    credential: caller\n", &format!("    credential: caller\n{more}"))
        .file("user-api.pem", &authority.pem())
}

struct Users {
    name: &'static str,
    world: World,
    server: Server,
    next: u32,
}

impl Users {
    fn start(name: &'static str, more: &str) -> Self {
        let authority = Authority::new();
        let server = Server::start(&authority, String::new());
        let world = setup(&server, &authority, more).start();
        Self { name, world, server, next: 0 }
    }

    fn stranger(&mut self) -> Ask {
        self.next += 1;
        of(&format!("user.{}", self.next))
    }
}

fn of(user: &str) -> Ask {
    Ask::get(OWN).bearer(&Token::of(user).sign())
}

fn known(failure: &str) -> Ask {
    of(&failure.replace(' ', "."))
}

impl Part for Users {
    fn name(&self) -> &'static str {
        self.name
    }

    fn dependency(&self) -> &'static str {
        "user_api"
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn prepare(&mut self, failure: &str) {
        if self.name.ends_with("stale") {
            assert_eq!(self.world.ask(known(failure)).status, 200);
        }
    }

    fn begin(&mut self, failure: &str) {
        self.server.turn(match failure {
            "down" => Mode::Down,
            "slow" => Mode::Slow(300),
            "hanging" => Mode::Hanging,
            "TLS fails" => Mode::Stranger,
            "truncated" => Mode::Truncated,
            "too large" => Mode::Huge,
            "no JSON" => Mode::WrongType,
            "another person's profile" => Mode::Another,
            "redirect" => Mode::Status(302),
            status => Mode::Status(status.parse().unwrap()),
        });
    }

    fn end(&mut self, _: &str) {
        self.server.turn(Mode::Good);
    }

    fn ask(&mut self, failure: &str) -> Ask {
        if self.name.ends_with("stale") { known(failure) } else { self.stranger() }
    }

    fn is_well(&mut self) -> bool {
        let ask = self.stranger();
        self.world.ask(ask).status == 200
    }
}

#[test]
fn s8_1_a_failing_user_api_is_unavailable_where_it_is_closed() {
    play(&mut Users::start("user API, closed", ""));
}

#[test]
fn s8_1_a_failing_user_api_serves_the_last_answer_where_it_may_be_stale() {
    let stale = "    on_failure: stale\n    stale_for: 10m\n";
    play(&mut Users::start("user API, stale", stale));
}
