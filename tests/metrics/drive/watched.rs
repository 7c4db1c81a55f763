//! A world, and what it was seen to serve.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::super::exposed::Seen;
use super::OWN;
use crate::harness::{Ask, Token, World};
use crate::kit::token::Signer;

/// A world that is looked at.
pub(super) struct Watched {
    pub(super) world: World,
    pub(super) seen: Seen,
    users: AtomicU32,
}

impl Watched {
    pub(super) fn new(world: World) -> Self {
        let mut watched = Self { world, seen: Seen::default(), users: AtomicU32::new(0) };
        watched.look();
        watched
    }

    pub(super) fn look(&mut self) {
        self.seen.look(self.world.metrics());
    }

    /// A token of a user that nobody asked for before.
    pub(super) fn stranger(&self) -> String {
        let n = self.users.fetch_add(1, Ordering::Relaxed);
        Token::of(&format!("stranger.{n}")).signer(Signer::Ec).sign()
    }

    /// Acts until each of `wanted` moved or, where it is `name{label="value"}`, is there.
    pub(super) fn until(&mut self, wanted: &[&str], act: impl Fn(&Self)) {
        let start = Instant::now();
        let missing = |seen: &Seen| -> Vec<String> {
            let done = |wanted: &str| match wanted.split_once('{') {
                None => seen.moved.contains(wanted),
                Some((_, labels)) => seen.text.lines().any(|line| {
                    line.starts_with(wanted.trim_end_matches('}'))
                        && !line.contains(&format!("{labels} 0"))
                }),
            };
            wanted.iter().filter(|wanted| !done(wanted)).map(|w| (*w).to_owned()).collect()
        };
        loop {
            act(self);
            self.look();
            let missing = missing(&self.seen);
            if missing.is_empty() {
                return;
            }
            let text = &self.seen.text;
            assert!(start.elapsed() < Duration::from_mins(1), "never: {missing:?}\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn ask(&self, target: &str, token: &str) -> u16 {
        let ask = Ask::get(target);
        let ask = if token.is_empty() { ask } else { ask.bearer(token) };
        self.world.ask(ask).status
    }

    /// Several strangers at once.
    pub(super) fn crowd(&self, size: usize) {
        std::thread::scope(|scope| {
            for _ in 0..size {
                scope.spawn(|| self.ask(OWN, &self.stranger()));
            }
        });
    }

    pub(super) fn put(&self, name: &str, text: &str) {
        let (new, path) = (self.world.folder().join("new"), self.world.folder().join(name));
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub(super) fn configuration(&self) -> String {
        fs::read_to_string(self.world.folder().join("portcullis.yaml")).unwrap()
    }

    pub(super) fn breaks(&self, status: u16, delay: u64, cut: bool) {
        self.world.backend.user_status.store(status, Ordering::SeqCst);
        self.world.backend.user_delay.store(delay, Ordering::SeqCst);
        self.world.backend.user_cut.store(cut, Ordering::SeqCst);
    }
}
