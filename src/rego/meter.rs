//! What one evaluation may still spend, and the built-ins that are charged to it.
//!
//! The allocator cannot do this: the interpreter's own limit is one number for the whole
//! process, so that one evaluation would answer for the memory of caches and of others, and it
//! is looked at only between calls. The interpreter's steps themselves are bounded by time; what
//! is left is what a single call of a built-in can take, and that is estimated before it runs.
//! Charges are never given back, so the limit is on the sum of what an evaluation touches.

use std::cell::Cell;

use regorus::Value;
use regorus::unstable::{BUILTINS, Expr, Ref, Source, Span};

use super::builtins::{ALLOWED, Allowed};
use super::opa;

thread_local! {
    // An evaluation stays on one thread, and engines are cloned with their extensions, so the
    // meter belongs to the thread.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Starts an evaluation that may spend `bytes`.
pub(super) fn start(bytes: usize) {
    LEFT.set(Some(bytes));
}

/// Whether the evaluation asked for more than it had.
pub(super) fn exceeded() -> bool {
    LEFT.get().is_none()
}

fn charge(bytes: usize) -> bool {
    let left = LEFT.get().and_then(|left| left.checked_sub(bytes));
    LEFT.set(left);
    left.is_some()
}

/// Bytes of a value as if nothing in it were shared; counting stops where the evaluation could
/// not pay for it anyway.
pub(super) fn size(value: &Value) -> usize {
    let most = LEFT.get().unwrap_or(0).saturating_add(1);
    let mut left = most;
    measure(value, &mut left);
    most - left
}

fn measure(value: &Value, left: &mut usize) {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Number(number) if !number.is_integer() => 16,
        Value::Number(number) => {
            number.as_i64().map_or_else(|| number.format_decimal().len(), |_| 8)
        }
        _ => 0,
    };
    // A value of its own takes 24 bytes in a list and more in a tree.
    *left = left.saturating_sub(own + 32);
    let visit = |value: &Value, left: &mut usize| {
        if *left > 0 {
            measure(value, left);
        }
    };
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, left)),
        Value::Set(items) => items.iter().for_each(|item| visit(item, left)),
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            visit(name, left);
            visit(value, left);
        }),
        _ => {}
    }
}

/// Puts a metered function in place of every built-in that has a cost, and our own in place of
/// those that read numbers or JSON.
pub(super) fn install(engine: &mut regorus::Engine) -> anyhow::Result<()> {
    let source = Source::from_contents("built-in".to_owned(), "built-in".to_owned())?;
    let span = Span { source, line: 1, col: 1, start: 0, end: 0 };
    for allowed in ALLOWED.iter().filter(|allowed| allowed.cost.is_some()) {
        let Some((builtin, arity)) = BUILTINS.get(allowed.name).copied() else { continue };
        let expr = || Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
        let params: Vec<Ref<Expr>> = (0..arity).map(|_| expr()).collect();
        let (span, name) = (span.clone(), allowed.name);
        let call = move |args: &[Value]| match opa::call(name, args) {
            Some(value) => value,
            // An error of a built-in is undefined, as in OPA.
            None => builtin(&span, &params, args, false).unwrap_or(Value::Undefined),
        };
        engine.add_extension(name.to_owned(), arity, Box::new(metered(allowed, call)))?;
    }
    Ok(())
}

fn metered(
    allowed: &'static Allowed,
    call: impl Fn(&[Value]) -> Value + Clone + Send + Sync,
) -> impl FnMut(Vec<Value>) -> anyhow::Result<Value> + Clone + Send + Sync {
    move |args| {
        anyhow::ensure!(
            charge(allowed.cost.map_or(0, |cost| cost(&args))),
            "{} exceeds the evaluation's memory",
            allowed.name
        );
        Ok(call(&args))
    }
}
