//! What can be wrong with the section `store.redis`, as far as no file or network is needed.

use super::address::{self, Server};
use crate::model::{HumanDuration, HumanSize, Problem};
use crate::store::config::{RedisConfig, SentinelConfig};

const LEAST_KEY: usize = 32;
const LARGEST: HumanSize = HumanSize(16 << 20);
const LONGEST: HumanDuration = HumanDuration::secs(5);

impl RedisConfig {
    /// Everything that is wrong with it; pointers are relative to it.
    pub(in crate::store) fn problems(&self) -> Vec<Problem> {
        let mut found = self.server_problems();
        found.extend(self.key_problems());
        let breaker = self.breaker.problems(self.timeout);
        found.extend(breaker.into_iter().map(|problem| problem.under("/breaker")));
        if self.username.is_some() && self.password.is_none() {
            let fix = "give `password_file`, or leave the user out";
            found.push(Problem::new("/username", "has no password", fix));
        }
        for (at, value) in [("/timeout", self.timeout), ("/connect_timeout", self.connect_timeout)]
        {
            if value.0.is_zero() || value > LONGEST {
                let message = format!("`{value}` is out of range");
                found.push(Problem::new(at, message, format!("write 1ms to {LONGEST}")));
            }
        }
        if self.max_in_flight == 0 {
            let message = "`0` lets no command through";
            found.push(Problem::new("/max_in_flight", message, "write for example `256`"));
        }
        if !(1 << 10..=LARGEST.0).contains(&self.max_value.0) {
            let message = format!("`{}` is out of range", self.max_value);
            found.push(Problem::new("/max_value", message, format!("write 1KiB to {LARGEST}")));
        }
        if self.prefix.len() > 128 || self.prefix.chars().any(char::is_control) {
            let message = "is longer than 128 bytes, or has control characters";
            found.push(Problem::new("/prefix", message, "write for example `portcullis:`"));
        }
        found
    }

    fn server_problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let given = [self.url.is_some(), self.sentinels.is_some(), self.cluster.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            let fix = "write one of `url`, `sentinels` and `cluster`";
            found.push(Problem::new("", "needs exactly one way to the servers", fix));
        }
        if let Some(url) = &self.url {
            if let Err(problem) = Server::of_url(url) {
                found.push(problem);
            } else if self.tls && !url.starts_with("rediss:") {
                let fix = "write `rediss://`, or leave `tls` out";
                found.push(Problem::new("/tls", "contradicts the scheme of `url`", fix));
            } else if self.ca_file.is_some() && !url.starts_with("rediss:") {
                found.push(without_tls());
            }
        }
        if let Some(sentinels) = &self.sentinels {
            found.extend(sentinels.problems().into_iter().map(|p| p.under("/sentinels")));
        }
        if let Some(nodes) = &self.cluster {
            found.extend(addresses(nodes).into_iter().map(|p| p.under("/cluster")));
        }
        if self.url.is_none() && self.ca_file.is_some() && !self.tls {
            found.push(without_tls());
        }
        found
    }

    fn key_problems(&self) -> Vec<Problem> {
        let reason = self.unsigned_reason.as_deref().map_or("", str::trim);
        let key = self.key.as_ref().map(|key| key.expose().trim().len());
        let problem = match (key, self.unsigned) {
            (Some(_), true) => ("/unsigned", "contradicts `key`", "keep one of the two"),
            (Some(length), false) if length < LEAST_KEY => (
                "/key",
                "the key is too short",
                "write at least 32 characters, such as the output of `openssl rand -hex 32`",
            ),
            (None, false) => (
                "/key",
                "is missing: whoever can write to Redis could say who may do what",
                "give `key_file`, or write `unsigned: true` and in `unsigned_reason` why not",
            ),
            (None, true) if reason.is_empty() => {
                ("/unsigned_reason", "is missing", "say why nobody else can write to this Redis")
            }
            _ => return Vec::new(),
        };
        vec![Problem::new(problem.0, problem.1, problem.2)]
    }
}

impl SentinelConfig {
    fn problems(&self) -> Vec<Problem> {
        let mut found = addresses(&self.addresses);
        found = found.into_iter().map(|problem| problem.under("/addresses")).collect();
        if self.master.trim().is_empty() {
            let fix = "write the name of `sentinel monitor`, such as `mymaster`";
            found.push(Problem::new("/master", "is empty", fix));
        }
        found
    }
}

fn addresses(all: &[String]) -> Vec<Problem> {
    if all.is_empty() {
        return vec![Problem::new("", "names no server", "write `[host:port]`")];
    }
    let bad = all.iter().enumerate().filter(|(_, text)| address::host_and_port(text).is_none());
    let problem = |(index, text): (usize, &String)| {
        let message = format!("`{text}` is no address");
        Problem::new(format!("/{index}"), message, "write `host:port`")
    };
    bad.map(problem).collect()
}

fn without_tls() -> Problem {
    Problem::new("/ca_file", "has no effect without TLS", "use TLS, or leave it out")
}
