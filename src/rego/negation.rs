//! `not` as OPA means it.
//!
//! OPA takes the operands of a negated call out of the negation: `not f(input.x)` is undefined
//! where `input.x` is, and true for the interpreter. A grant written as `not forbidden(input.x)`
//! must not depend on who evaluates it, so each negation is given its operands as a condition of
//! its own before it: `[input.x]; not f(input.x)`. Only `==` on plain references is left as it
//! is; there both agree. The text changes within its lines, so places in messages stay right.

use serde_json::Value;

use super::shape::{steps, variant};

/// A change of the text: what to insert, where.
type Insertion = (usize, String);

/// The module with its negations guarded, or why one cannot be (with its line).
pub(super) fn guarded(ast: &Value, text: &str) -> Result<String, (u64, &'static str)> {
    let mut insertions = Vec::new();
    visit(ast, text, &mut insertions)?;
    insertions.sort_by_key(|(at, _)| *at);
    let mut out = String::with_capacity(text.len() + 64 * insertions.len());
    let mut from = 0;
    for (at, inserted) in insertions {
        out.push_str(text.get(from..at).unwrap_or_default());
        out.push_str(&inserted);
        from = at;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Ok(out)
}

fn visit(node: &Value, text: &str, out: &mut Vec<Insertion>) -> Result<(), (u64, &'static str)> {
    match node {
        Value::Array(items) => items.iter().try_for_each(|item| visit(item, text, out)),
        Value::Object(members) => {
            if let Some(negated) = members.get("literal").and_then(|l| l.pointer("/NotExpr/expr")) {
                let line = node.pointer("/span/line").and_then(Value::as_u64).unwrap_or_default();
                guard(node, negated, text, out).map_err(|why| (line, why))?;
            }
            members.values().try_for_each(|inner| visit(inner, text, out))
        }
        _ => Ok(()),
    }
}

fn guard(
    statement: &Value,
    negated: &Value,
    text: &str,
    out: &mut Vec<Insertion>,
) -> Result<(), &'static str> {
    let mut operands = Vec::new();
    collect(negated, &mut operands);
    operands.retain(|operand| may_be_undefined(operand));
    if operands.iter().any(|operand| has_wildcard(operand)) {
        return Err("`_` within `not`; name what is iterated over with `some … in` before it");
    }
    let unclear = "cannot be read; write its operands as variables";
    let (start, end) = range(statement).ok_or(unclear)?;
    let mut parts = Vec::new();
    for operand in operands {
        let (from, to) = extent(operand).ok_or(unclear)?;
        let part = text.get(from..to).ok_or(unclear)?;
        if part.contains('#') {
            return Err(
                "a comment or `#` within `not`; assign its operands to variables before it",
            );
        }
        parts.push(part.replace('\n', " "));
    }
    if parts.is_empty() {
        return Ok(());
    }
    let with = modifiers(statement, text).ok_or(unclear)?;
    let bare = is_bare(text.get(..start).unwrap_or_default());
    out.push((start, format!("{}[{}]{with}; ", if bare { "{ " } else { "" }, parts.join(", "))));
    if bare {
        out.push((end, " }".to_owned()));
    }
    Ok(())
}

/// The `with` modifiers of a statement, as text.
fn modifiers(statement: &Value, text: &str) -> Option<String> {
    let Some(modifiers) = statement.get("with_mods").and_then(Value::as_array) else {
        return Some(String::new());
    };
    let part = |modifier: &Value| {
        let (from, to) = extent(modifier.get("refr")?)?;
        let (as_from, as_to) = extent(modifier.get("as")?)?;
        Some(format!(" with {} as {}", text.get(from..to)?, text.get(as_from..as_to)?))
    };
    modifiers.iter().map(part).collect()
}

/// Whether a statement after `before` is a whole body without braces.
fn is_bare(before: &str) -> bool {
    let trimmed = before.trim_end();
    let line = trimmed.rsplit('\n').next().unwrap_or_default();
    let same_line = !before.get(trimmed.len()..).unwrap_or_default().contains('\n');
    let is_word = |rest: &str| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    trimmed.strip_suffix("if").is_some_and(is_word) && (same_line || !line.contains('#'))
}

/// What OPA computes before it negates `expr`.
fn collect<'a>(expr: &'a Value, out: &mut Vec<&'a Value>) {
    let Some((kind, node)) = variant(expr) else { return };
    let sides = || [node.get("lhs"), node.get("rhs")].into_iter().flatten();
    let is_eq = node.get("op").and_then(Value::as_str) == Some("Eq");
    match kind {
        "Call" => out.extend(node.get("params").and_then(Value::as_array).into_iter().flatten()),
        "Membership" => {
            let parts = [node.get("key"), node.get("value"), node.get("collection")];
            out.extend(parts.into_iter().flatten());
        }
        "BoolExpr" | "AssignExpr" if is_eq => sides().for_each(|side| match variant(side) {
            Some(("RefDot" | "RefBrack" | "Var", _)) => out.extend(steps(side)),
            _ => out.push(side),
        }),
        "BoolExpr" | "ArithExpr" | "BinExpr" => out.extend(sides()),
        "RefDot" | "RefBrack" => out.extend(steps(expr)),
        "Array" | "Set" | "Object" => out.push(expr),
        _ => {}
    }
}

fn may_be_undefined(expr: &Value) -> bool {
    let literal = |kind| matches!(kind, "String" | "RawString" | "Number" | "Bool" | "Null");
    variant(expr).is_some_and(|(kind, _)| !literal(kind))
}

fn has_wildcard(node: &Value) -> bool {
    match (node, variant(node)) {
        (_, Some(("Var", var))) => var.get("value").and_then(Value::as_str) == Some("_"),
        (_, Some(("ArrayCompr" | "SetCompr" | "ObjectCompr", _))) => false,
        (Value::Array(items), _) => items.iter().any(has_wildcard),
        (Value::Object(members), _) => members.values().any(has_wildcard),
        _ => false,
    }
}

/// Start and end of an expression's text; a string's own span leaves its quotes out.
fn extent(expr: &Value) -> Option<(usize, usize)> {
    let (kind, node) = variant(expr)?;
    let (start, end) = range(node)?;
    let quoted = matches!(kind, "String" | "RawString");
    if quoted { Some((start.checked_sub(1)?, end + 1)) } else { Some((start, end)) }
}

/// Start and end of a node's text.
fn range(node: &Value) -> Option<(usize, usize)> {
    let at = |name: &str| node.pointer(name)?.as_u64().and_then(|n| usize::try_from(n).ok());
    at("/span/start").zip(at("/span/end"))
}
#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Result<String, (u64, &'static str)> {
        let mut engine = regorus::Engine::new();
        engine.add_policy("a.rego".to_owned(), text.to_owned()).unwrap();
        let modules = crate::rego::shape::modules(&engine.get_ast_as_json().unwrap()).unwrap();
        guarded(&modules[0].ast, &modules[0].source.contents)
    }

    #[test]
    fn r01_operands_of_what_is_negated_become_a_condition() {
        for (body, expected) in [
            ("x if not f(input.x)", "x if { [input.x]; not f(input.x) }"),
            ("x if { not f(input.x, 1) }", "x if { [input.x]; not f(input.x, 1) }"),
            (
                "x if { not input.a in input.b }",
                "x if { [input.a, input.b]; not input.a in input.b }",
            ),
            ("x if not input.a == 1", "x if not input.a == 1"),
            ("x if not y", "x if not y"),
            ("x if not \"a\" < input.y", "x if { [input.y]; not \"a\" < input.y }"),
            (
                "x if { not f(input.x) with input.x as \"b\" }",
                "x if { [input.x] with input.x as \"b\"; not f(input.x) with input.x as \"b\" }",
            ),
        ] {
            let text = format!("package a\nf(_) := 1\n{body}\n");
            assert_eq!(rewritten(&text).unwrap(), format!("package a\nf(_) := 1\n{expected}\n"));
        }
    }

    #[test]
    fn r01_what_cannot_be_moved_safely_is_refused_with_its_line() {
        for body in ["x if not f(input.l[_])", "x if {\n not f({1, # one\n 2})\n}"] {
            let (line, _) = rewritten(&format!("package a\n{body}")).unwrap_err();
            assert!(line >= 2);
        }
    }
}
