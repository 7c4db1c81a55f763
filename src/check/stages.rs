//! Waiting for what a Check has loaded, and the time that it took.

use std::time::Instant;

use crate::model::{Code, Refusal, StageTime};
use crate::telemetry::trace;

/// Keeps the time of the stages that load.
pub(super) struct Stages {
    deadline: Instant,
    last: Instant,
    pub(super) times: Vec<StageTime>,
}

impl Stages {
    /// Times from now on; the Check waits until `deadline`.
    pub(super) fn until(deadline: Instant) -> Self {
        Self { deadline, last: Instant::now(), times: Vec::new() }
    }

    /// A stage has passed.
    pub(super) fn passed(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.times.push(StageTime { stage, took: now.saturating_duration_since(self.last) });
        self.last = now;
    }

    /// Waits for a stage until the deadline. What others wait for too goes on, whoever leaves.
    pub(super) async fn within<T>(
        &mut self,
        stage: &'static str,
        resolving: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let result =
            tokio::time::timeout_at(self.deadline.into(), trace::stage(stage, resolving)).await;
        self.passed(stage);
        result.unwrap_or_else(|_| Err(Refusal::new(Code::DeadlineExceeded, late(stage))))
    }
}

fn late(stage: &'static str) -> &'static str {
    match stage {
        "authn" => "the time ran out while the token was verified",
        "context" => "the time ran out while the user context was loaded",
        _ => "the time ran out while the policy was evaluated",
    }
}
