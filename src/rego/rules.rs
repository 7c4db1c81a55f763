//! Refuses, at load, what a policy must not do: call what is not allowed, recurse, nest deeper
//! than the stack allows.

use std::collections::BTreeMap;

use regorus::unstable::BUILTINS;
use serde_json::Value;

use super::builtins::{self, Literal};
use super::graph::{Graph, MAX_NESTING};
use super::shape::{Call, Rule};
use crate::model::Problem;

/// Every problem of the rules.
pub(super) fn problems(rules: &[Rule], graph: &Graph) -> Vec<Problem> {
    let functions: BTreeMap<&[String], usize> = rules
        .iter()
        .filter_map(|rule| rule.arity.map(|arity| (rule.path.as_slice(), arity)))
        .collect();
    let mut problems: Vec<Problem> = rules
        .iter()
        .flat_map(|rule| rule.calls.iter().map(move |call| (rule, call)))
        .filter_map(|(rule, call)| call_problem(rule, call, &functions))
        .collect();
    for (place, what, fix) in rules.iter().flat_map(|rule| &rule.disputed) {
        problems.push(problem(format!("{place}: {what}; OPA would compute it otherwise"), fix));
    }
    if let Some(path) = graph.too_deep() {
        problems.push(depth_problem(path, rules, graph));
    }
    problems
}

fn depth_problem(path: &[String], rules: &[Rule], graph: &Graph) -> Problem {
    let circle = rules.iter().find(|rule| graph.circle(&rule.path));
    let path = circle.map_or(path, |rule| &rule.path);
    let place = rules.iter().find(|rule| rule.path == path).and_then(|rule| rule.place.as_ref());
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    let name = path.join(".");
    if circle.is_some() {
        return problem(
            format!("{place}`{name}` depends on itself"),
            "break the circle; Rego has no recursion",
        );
    }
    problem(
        format!(
            "{place}`{name}` starts a chain of rules whose expressions nest deeper than \
             {MAX_NESTING}"
        ),
        "make the chain of rules shorter or their expressions flatter",
    )
}

fn problem(message: String, fix: &str) -> Problem {
    Problem::new("/paths", message, fix)
}

fn call_problem(
    rule: &Rule,
    call: &Call,
    functions: &BTreeMap<&[String], usize>,
) -> Option<Problem> {
    let name = call.name.join(".");
    let place = &call.place;
    if call.is_with {
        // A value is what `with` is for; a function in its place would hide from this check.
        let is_function =
            BUILTINS.contains_key(name.as_str()) || own(rule, call, functions).is_some();
        return is_function.then(|| {
            problem(
                format!("{place}: `with` replaces a function by `{name}`"),
                "replace functions in tests only",
            )
        });
    }
    let arity = match own(rule, call, functions) {
        Some(arity) => arity,
        None => match builtin(call, &name) {
            Ok(arity) => arity,
            Err(problem) => return Some(problem),
        },
    };
    (call.args.len() != arity).then(|| {
        problem(
            format!("{place}: `{name}` takes {arity} arguments, {} are given", call.args.len()),
            "give exactly the arguments of the function, and assign its result with `:=`",
        )
    })
}

/// Arity of the bundle's own function that is called.
fn own(rule: &Rule, call: &Call, functions: &BTreeMap<&[String], usize>) -> Option<usize> {
    if call.name.first().is_some_and(|root| root == "data") {
        return functions.get(call.name.as_slice()).copied();
    }
    let local = [rule.path.get(..rule.package)?, &call.name].concat();
    functions.get(local.as_slice()).copied()
}

fn builtin(call: &Call, name: &str) -> Result<usize, Problem> {
    let place = &call.place;
    let Some(allowed) = builtins::allowed(name) else {
        if call.name.first().is_some_and(|root| root == "data") {
            return Err(problem(
                format!("{place}: there is no function `{name}`"),
                "define it, or add the path that defines it",
            ));
        }
        return Err(problem(
            format!("{place}: the function `{name}` is not allowed: {}", builtins::refused(name)),
            "use a function of the documented list, or put what it computes into the input",
        ));
    };
    let text = |at: usize| call.args.get(at).and_then(literal);
    match allowed.literal {
        Some(Literal::Text(at)) if text(at).is_none() => Err(problem(
            format!("{place}: argument {} of `{name}` must be a literal string", at + 1),
            "write the pattern or layout into the policy",
        )),
        Some(Literal::Format) if !text(0).is_some_and(builtins::format_is_plain) => Err(problem(
            format!(
                "{place}: the format of `{name}` must be a literal string of plain `%s`, `%v`, \
                     `%d` and `%%`"
            ),
            "write the format into the policy",
        )),
        _ => Ok(BUILTINS.get(name).map_or(call.args.len(), |(_, arity)| usize::from(*arity))),
    }
}

fn literal(expr: &Value) -> Option<&str> {
    let value = expr.pointer("/String/value").or_else(|| expr.pointer("/RawString/value"));
    value.and_then(Value::as_str)
}
