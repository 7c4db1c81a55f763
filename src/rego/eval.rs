//! One evaluation within its limits.
//!
//! What an evaluation may take is CPU time: on a machine that stalls, elapsed time says nothing
//! of the policy or of its input, and a denial would be nobody's doing. The interpreter however
//! can be cut by elapsed time only. (Its clock can be replaced in builds without `std`, where
//! the clock and the patterns of all threads are behind spin locks: a thread that is descheduled
//! there has all others burn their own CPU time.) So an evaluation gets a window of elapsed
//! time, and one that is cut is judged by the CPU time that it took: at the limit it is over,
//! and below it the thread was starved, and it runs again in a window twice as long. All windows
//! together are bounded, and who is starved to their end was not at fault.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use regorus::Value;
use regorus::utils::limits::ExecutionTimerConfig;

use super::engine::{CHECK_INTERVAL, Rule};
use super::{json, meter, spare};

/// Memory that one byte of input may take as values, counted against the limit.
const INPUT_FACTOR: usize = 8;
/// Elapsed time that all windows of an evaluation may take, as a multiple of its CPU time:
/// four windows.
const BACKSTOP: u32 = 20;

/// What one evaluation may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// CPU time of the evaluating thread. Elapsed time is bounded by twenty times as much.
    pub time: Duration,
    /// Bytes: the input's values, what built-ins produce, and the result, summed up.
    pub memory: usize,
}

/// Why an evaluation gave no answer. A caller's input can bring about each of them but
/// [`EvalError::Starved`].
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// It took more CPU time than it may.
    #[error("the evaluation reached its time limit")]
    Time,
    /// It was given so little CPU time, for so long, that it was given up. Neither policy nor
    /// input are to blame.
    #[error("the evaluation was starved of CPU time")]
    Starved,
    /// It would take more memory than it may.
    #[error("the evaluation reached its memory limit")]
    Memory,
    /// The input is no JSON, or nests too deeply, or has a number beyond all bounds.
    #[error("the input is unusable: {0}")]
    Input(&'static str),
    /// The policy erred on it, for example with two values for one rule. The text may quote
    /// the policy and the input.
    #[error("the policy failed: {0}")]
    Failed(String),
}

impl Rule {
    /// Its value on the document `input_json`; `None` where it is undefined. Runs on the calling
    /// thread for about the limit of time, or where other threads keep the processors from it
    /// for twenty times as long, and needs at most 2 MiB of its stack.
    ///
    /// # Errors
    /// The limits were reached, the thread was starved, the input cannot be used, or the policy
    /// erred on it.
    pub fn eval(
        &self,
        input_json: &str,
        limits: Limits,
    ) -> Result<Option<serde_json::Value>, EvalError> {
        let (input, limits) = read(input_json, limits)?;
        let started = Instant::now();
        // A little more than the limit, for an evaluation is rarely without any interruption.
        let mut window = limits.time.saturating_mul(5) / 4;
        let value = loop {
            let outcome = self.attempt(input.clone(), limits, window);
            window = window.saturating_mul(2);
            let end = started.elapsed().saturating_add(window);
            let again = end <= limits.time.saturating_mul(BACKSTOP);
            if !(again && matches!(outcome, Err(EvalError::Starved))) {
                break outcome?;
            }
        };
        written(&value, limits)
    }

    /// As [`Rule::eval`], at once and for a moment, on a thread that has other work but the stack
    /// for it ([`super::has_room`]). `None` where it cannot be had that way: where so much has
    /// been evaluated that other work must have its turn, or the rule takes longer.
    #[must_use]
    pub fn eval_here(
        &self,
        input_json: &str,
        limits: Limits,
    ) -> Option<Result<Option<serde_json::Value>, EvalError>> {
        let spare = &self.bundle.spare;
        if !spare.any() || !self.brevity.likely() {
            return None;
        }
        let (started, used) = (Instant::now(), (self.cpu)());
        let window = spare::WINDOW.min(limits.time.saturating_mul(5) / 4);
        let outcome = read(input_json, limits).and_then(|(input, limits)| {
            let value = self.attempt(input, limits, window)?;
            written(&value, limits)
        });
        spare.spend(started.elapsed());
        if matches!(outcome, Err(EvalError::Starved)) {
            // One that was held up by other threads says nothing of the rule.
            if (self.cpu)().saturating_sub(used) >= window / 2 {
                self.brevity.missed();
            }
            return None;
        }
        Some(outcome)
    }

    /// Evaluates once, for `window` of elapsed time.
    fn attempt(&self, input: Value, limits: Limits, window: Duration) -> Result<Value, EvalError> {
        let mut engine = self.bundle.take();
        engine.set_execution_timer_config(ExecutionTimerConfig {
            limit: window,
            check_interval: CHECK_INTERVAL,
        });
        engine.set_input(input);
        meter::start(limits.memory);
        let (started, used) = (Instant::now(), (self.cpu)());
        let path = self.path.to_string();
        // A fault of the interpreter ends one evaluation; its engine is dropped.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.by_query {
                engine.eval_query(path, false).map(value_of)
            } else {
                engine.eval_rule(path)
            }
        }));
        let (elapsed, used) = (started.elapsed(), (self.cpu)().saturating_sub(used));
        // The interpreter drops the errors of a function's body where another body gave a
        // value, limits included, so what counts is what was taken.
        if used > limits.time {
            return Err(EvalError::Time);
        }
        if meter::exceeded() {
            return Err(EvalError::Memory);
        }
        if elapsed > window {
            return Err(EvalError::Starved);
        }
        let value = match outcome {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => {
                self.bundle.give_back(engine);
                return Err(EvalError::Failed(error.to_string()));
            }
            Err(_) => return Err(EvalError::Failed("the interpreter panicked".to_owned())),
        };
        engine.set_input(Value::Undefined);
        self.bundle.give_back(engine);
        Ok(value)
    }

    /// The same rule, with `cpu` to read the CPU time that the calling thread has used: a test
    /// can starve its evaluations.
    #[must_use]
    pub fn measured_by(self, cpu: fn() -> Duration) -> Self {
        Self { cpu, ..self }
    }
}

/// The document, and what of the limits it leaves.
fn read(input_json: &str, limits: Limits) -> Result<(Value, Limits), EvalError> {
    let taken = input_json.len().saturating_mul(INPUT_FACTOR);
    let memory = limits.memory.checked_sub(taken).ok_or(EvalError::Memory)?;
    let input = json::parse(input_json).map_err(|e| EvalError::Input(e.0))?;
    Ok((input, Limits { memory, ..limits }))
}

fn written(value: &Value, limits: Limits) -> Result<Option<serde_json::Value>, EvalError> {
    if *value == Value::Undefined {
        return Ok(None);
    }
    let mut left = limits.memory;
    json::to_json(value, &mut left).map(Some).ok_or(EvalError::Memory)
}

/// The value of a query of one expression.
fn value_of(results: regorus::QueryResults) -> Value {
    let expression =
        results.result.into_iter().next().and_then(|r| r.expressions.into_iter().next());
    expression.map_or(Value::Undefined, |expression| expression.value)
}
