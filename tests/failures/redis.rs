//! Redis: a failure is a miss.

use super::server::Server as UserApi;
use super::{FELT, Part, play, until, users};
use crate::harness::certs::Authority;
use crate::harness::redis::Server;
use crate::harness::sentinel::watched;
use crate::harness::{Ask, Token, World};

pub(super) const NAMES: &[&str] = &["Redis", "Redis, Sentinel"];

const OWN: &str = "/cwms-data/timeseries?office=SPK&name=Elev";

struct Redis {
    name: &'static str,
    world: World,
    /// The one that fails, and the one that stands in for it.
    server: Server,
    replica: Option<Server>,
    _sentinel: Option<Server>,
    _users: UserApi,
    next: u32,
}

impl Redis {
    fn start(name: &'static str, place: &str, servers: (Server, Option<(Server, Server)>)) -> Self {
        let authority = Authority::new();
        let users = UserApi::start(&authority, String::new());
        let section = format!(
            "\nstore:\n  redis:\n    {place}\n    key: {}\n    timeout: 250ms\n\
             audit: {{ directory: FOLDER/audit }}\n",
            "marker-".repeat(5)
        );
        // Long enough that what others stored is there to be found.
        let world = users::setup(&users, &authority, "")
            .portcullis("  ttl: 1s\n", "  ttl: 10m\n")
            .portcullis("\naudit: { directory: FOLDER/audit }\n", &section)
            .start();
        let (server, (replica, sentinel)) = (servers.0, servers.1.unzip());
        Self { name, world, server, replica, _sentinel: sentinel, _users: users, next: 0 }
    }

    fn fresh(&mut self) -> Ask {
        self.next += 1;
        Ask::get(OWN).bearer(&Token::of(&format!("user.{}", self.next)).sign())
    }

    /// The server that is written to.
    fn master(&self) -> &Server {
        self.replica.as_ref().unwrap_or(&self.server)
    }
}

impl Part for Redis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn dependency(&self) -> &'static str {
        "redis"
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn prepare(&mut self, failure: &str) {
        if failure == "poisoned values" {
            for n in 0..super::ASKED {
                let ask = Ask::get(OWN).bearer(&Token::of(&format!("poisoned.{n}")).sign());
                assert_eq!(self.world.ask(ask).status, 200);
            }
            // And the list of invalidations.
            until("they are stored", FELT, || {
                let size = self.server.say("DBSIZE");
                size.trim().trim_start_matches(':').parse::<u32>().unwrap() > super::ASKED
            });
            // Memory forgets, Redis does not.
            self.world.end_portcullis();
        }
    }

    fn begin(&mut self, failure: &str) {
        match failure {
            "killed" => self.server.kill(),
            "paused" => self.server.signal("STOP"),
            "restarted empty" => {
                self.server.kill();
                self.server.run();
            }
            "full" => drop(self.server.say("CONFIG SET maxmemory 1")),
            "read-only" => drop(self.server.say("REPLICAOF 127.0.0.1 1")),
            "wrong password" => {
                // Those who are in stay in; who comes anew is asked.
                let gone = "CLIENT KILL TYPE normal SKIPME yes";
                self.server.say(&format!("CONFIG SET requirepass another\r\n{gone}"));
            }
            "poisoned values" => {
                // The list was lost with the data; a replica that could not write begins it anew
                // when it next looks.
                self.server.until("KEYS *generations", "generations");
                let script = "for _,k in ipairs(redis.call('KEYS','*')) do \
                              redis.call('SET',k,'poison') end";
                self.server.say(&format!("EVAL \"{script}\" 0"));
                self.world.start_portcullis();
                self.next = 0;
            }
            other => panic!("{other}"),
        }
    }

    fn end(&mut self, failure: &str) {
        match failure {
            "killed" if self.replica.is_some() => {
                // Nobody brings it back; the replica is made master.
                self.master().until("ROLE", "master");
            }
            "killed" => self.server.run(),
            "paused" => self.server.signal("CONT"),
            "full" => drop(self.server.say("CONFIG SET maxmemory 0")),
            "read-only" => drop(self.server.say("REPLICAOF NO ONE")),
            "wrong password" => {
                let command = "AUTH another\r\nCONFIG SET requirepass \"\"";
                self.server.say(command);
                self.server.until("PING", "+PONG");
            }
            _ => {}
        }
    }

    fn ask(&mut self, failure: &str) -> Ask {
        if failure == "poisoned values" {
            let user = format!("poisoned.{}", self.next);
            self.next += 1;
            return Ask::get(OWN).bearer(&Token::of(&user).sign());
        }
        self.fresh()
    }

    fn look(&mut self, failure: &str) {
        if failure == "poisoned values" {
            let rejected = self.world.metric("portcullis_store_values_rejected_total", &[]);
            assert!(
                rejected > f64::from(super::ASKED) + 0.9,
                "each of them, and the list: {rejected}"
            );
            self.next = 1000;
        }
    }

    fn is_well(&mut self) -> bool {
        let size = self.master().say("DBSIZE");
        let ask = self.fresh();
        assert_eq!(self.world.ask(ask).status, 200);
        std::thread::sleep(std::time::Duration::from_millis(100));
        self.master().say("DBSIZE") != size
    }
}

#[test]
fn s8_1_a_failing_redis_is_a_miss() {
    let server = Server::start(&[]);
    let url = format!("url: \"redis://127.0.0.1:{}\"", server.port);
    play(&mut Redis::start("Redis", &url, (server, None)));
}

#[test]
fn s8_1_a_failover_is_a_miss_until_the_new_master_is_known() {
    let (master, replica, sentinel) = watched();
    let address = format!("127.0.0.1:{}", sentinel.port);
    let place = format!("sentinels: {{ addresses: [\"{address}\"], master: main }}");
    play(&mut Redis::start("Redis, Sentinel", &place, (master, Some((replica, sentinel)))));
}
