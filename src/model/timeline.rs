//! When the stages of one Check began: what its spans are made of afterwards.

use std::time::Instant;

/// The stages that a Check entered, in order. Kept only where the Check is traced; each ends
/// where the next begins.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    entered: Vec<(&'static str, Instant)>,
    ended: Option<Instant>,
}

/// One stage that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// `route`, `authn`, `context`, `policy` or `respond`.
    pub stage: &'static str,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
}

impl Timeline {
    /// No stage was entered yet.
    #[must_use]
    pub fn new() -> Self {
        Self { entered: Vec::with_capacity(5), ended: None }
    }

    /// The next stage begins, and the one before ends.
    pub fn enter(&mut self, stage: &'static str) {
        if self.entered.last().is_none_or(|(last, _)| *last != stage) {
            self.entered.push((stage, Instant::now()));
        }
    }

    /// The journey begins again: it goes the same way and loads what was missing.
    pub fn restart(&mut self) {
        self.entered.clear();
    }

    /// The last stage ended.
    pub fn end(&mut self) {
        self.ended = Some(Instant::now());
    }

    /// The stages with their times; the last one, if it never ended, lasts until `cut`.
    pub fn passed(&self, cut: Instant) -> impl Iterator<Item = Passed> + '_ {
        let last = self.ended.unwrap_or(cut);
        self.entered.iter().enumerate().map(move |(index, &(stage, from))| {
            let next = self.entered.get(index + 1).map_or(last, |&(_, next)| next);
            Passed { stage, from, to: next.max(from) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_ends_where_the_next_begins() {
        let mut timeline = Timeline::new();
        timeline.enter("route");
        timeline.restart();
        timeline.enter("route");
        timeline.enter("authn");
        let cut = Instant::now();
        let passed: Vec<_> = timeline.passed(cut).collect();
        assert_eq!(passed.len(), 2);
        assert_eq!((passed[0].stage, passed[0].to), ("route", passed[1].from));
        assert_eq!(passed[1].to, cut);
        timeline.end();
        assert!(timeline.passed(cut).last().unwrap().to >= cut);
    }
}
