//! Built-in functions where the interpreter's own would answer otherwise than OPA.
//!
//! Known differences that remain, none of which turns a denial into an allow by itself: fractions
//! are doubles (OPA computes with more digits and keeps how a number was written), sets sort
//! before objects, a rule of nested names (`a.b := …`, `a[x][y] := …`) of which nothing is defined
//! may be undefined or hold an empty object, and an operator on a wrong type is an error, hence a
//! denial, where OPA says undefined.

use std::fmt::Write as _;

use regorus::Value;

use super::json;

/// The answer of our own function `name`, if there is one for these arguments.
pub(super) fn call(name: &str, args: &[Value]) -> Option<Value> {
    match (name, args) {
        ("json.marshal", [value]) => Some(marshal(value)),
        ("sprintf", [Value::String(format), Value::Array(items)]) => {
            Some(sprintf(format, items.iter()))
        }
        (_, [Value::String(text)]) => of_text(name, text),
        _ => None,
    }
}

fn of_text(name: &str, text: &str) -> Option<Value> {
    Some(match name {
        "count" => Value::from(text.chars().count()),
        "json.unmarshal" => json::parse(text).unwrap_or(Value::Undefined),
        "json.is_valid" => Value::Bool(json::parse(text).is_ok()),
        "lower" => Value::from(text.chars().map(lower).collect::<String>()),
        "upper" => Value::from(text.chars().map(upper).collect::<String>()),
        "to_number" => match json::parse(text) {
            Ok(number @ Value::Number(_)) if text.trim() == text => number,
            _ => Value::Undefined,
        },
        _ => return None,
    })
}

/// Go maps character by character; what would become several stays as it is.
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    mapped.next().filter(|_| mapped.next().is_none()).unwrap_or(c)
}

fn lower(c: char) -> char {
    // The first of several is the simple mapping of the one character that has several.
    c.to_lowercase().next().unwrap_or(c)
}

/// Go escapes what could end a script element or a line of JavaScript.
fn marshal(value: &Value) -> Value {
    let Some(json) = json::to_json(value, &mut usize::MAX.clone()) else {
        return Value::Undefined;
    };
    let mut text = String::new();
    for c in json.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    Value::from(text)
}

/// `%s`, `%v`, `%d` and `%%`, with Go's words for what does not fit.
fn sprintf<'a>(format: &str, items: impl Iterator<Item = &'a Value>) -> Value {
    let mut items = items.peekable();
    let (mut text, mut chars) = (String::new(), format.chars());
    while let Some(c) = chars.next() {
        match (c, c == '%') {
            (_, false) => text.push(c),
            _ => match chars.next() {
                Some('%') | None => text.push('%'),
                Some(verb) => match items.next() {
                    Some(value) => text.push_str(&formatted(verb, value)),
                    None => {
                        text.push_str(&["%!", verb.encode_utf8(&mut [0; 4]), "(MISSING)"].concat());
                    }
                },
            },
        }
    }
    if items.peek().is_some() {
        let rest: Vec<String> =
            items.map(|value| format!("{}={}", kind(value), plain(value))).collect();
        let _ = write!(text, "%!(EXTRA {})", rest.join(", "));
    }
    Value::from(text)
}

fn formatted(verb: char, value: &Value) -> String {
    let integer = matches!(value, Value::Number(number) if number.is_integer());
    let fits = match verb {
        'd' => integer,
        's' => !matches!(value, Value::Number(_)),
        _ => true,
    };
    if fits { plain(value) } else { format!("%!{verb}({}={})", kind(value), plain(value)) }
}

/// The Go type that OPA hands to its formatter.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(number) if number.is_integer() => "*big.Int",
        Value::Number(_) => "float64",
        _ => "string",
    }
}

/// A text as it is, all else as OPA writes a term.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.as_ref().to_owned(),
        other => term(other),
    }
}

fn term(value: &Value) -> String {
    let list =
        |items: &mut dyn Iterator<Item = &Value>| items.map(term).collect::<Vec<_>>().join(", ");
    match value {
        Value::String(text) => serde_json::Value::from(text.as_ref()).to_string(),
        Value::Array(items) => format!("[{}]", list(&mut items.iter())),
        Value::Set(items) if items.is_empty() => "set()".to_owned(),
        Value::Set(items) => format!("{{{}}}", list(&mut items.iter_sorted())),
        Value::Object(members) => {
            let member = |(name, value)| format!("{}: {}", term(name), term(value));
            format!("{{{}}}", members.iter_sorted().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Number(number) => number.format_decimal(),
        Value::Bool(bool) => bool.to_string(),
        Value::Null | Value::Undefined => "null".to_owned(),
    }
}
