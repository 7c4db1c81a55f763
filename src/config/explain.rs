//! One schema error → sentences that a person can act on.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Error;
use serde_json::Value;

use super::alternatives;
use super::report::{Fault, child};
use super::scalar;
use super::scene::Scene;
use super::suggest::{all, nearest, one_of};

/// The faults that `error` stands for.
pub(super) fn explain(error: &ValidationError<'_>, scene: &Scene<'_>) -> Vec<Fault> {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        Error::AnyOf { context } | Error::OneOfNotValid { context } => {
            alternatives::explain(pointer, context, scene)
        }
        Error::OneOfMultipleValid { .. } => {
            let message = format!("{} fits more than one form", scene.shown(pointer));
            vec![scene.fault(pointer, message, "keep the keys of one form")]
        }
        Error::AdditionalProperties { unexpected }
        | Error::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|key| unknown_key(pointer, key, scene)).collect()
        }
        Error::PropertyNames { error } => {
            let message = format!("a key here is not allowed: {}", error.masked());
            vec![scene.fault(pointer, message, "rename it")]
        }
        Error::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            vec![missing_key(pointer, key, scene)]
        }
        kind => {
            let (message, fix) = about_value(pointer, kind, scene);
            vec![scene.fault(pointer, message, fix)]
        }
    }
}

/// A key that the schema does not know at `pointer`.
pub(super) fn unknown_key(pointer: &str, key: &str, scene: &Scene<'_>) -> Fault {
    let at = child(pointer, key);
    let known = scene.schema.at(pointer).keys();
    let message = if known.contains(&key) {
        format!("`{key}` does not go with the other keys here")
    } else {
        format!("unknown key `{key}`")
    };
    let fix = match nearest(key, known.iter().copied().filter(|name| *name != key)) {
        _ if known.contains(&key) => "leave one of them out".to_owned(),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("remove it; known here: {}", all(&known)),
    };
    let fault = Fault::new(scene.places.key(&at), at, message, fix);
    if known.contains(&key) { fault } else { fault.left_out() }
}

fn missing_key(pointer: &str, key: &str, scene: &Scene<'_>) -> Fault {
    let about = scene.schema.at(&child(pointer, key));
    let about = about.alternatives().iter().find_map(|a| a.get("description")?.as_str());
    let fix = match about.and_then(first_sentence) {
        Some(about) => format!("add `{key}: …` ({about})"),
        None => format!("add `{key}: …`"),
    };
    let message = format!("the key `{key}` is missing");
    Fault::new(scene.places.nearest(pointer), pointer, message, fix)
}

fn first_sentence(text: &str) -> Option<String> {
    let paragraph = text.split("\n\n").next()?.replace('\n', " ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
    let sentence = sentence.trim_end_matches('.');
    (!sentence.is_empty() && sentence.chars().count() <= 120).then(|| sentence.to_owned())
}

fn about_value(pointer: &str, kind: &Error, scene: &Scene<'_>) -> (String, String) {
    let shown = scene.shown(pointer);
    match kind {
        Error::Type { .. } => wrong_type(pointer, scene),
        Error::Constant { expected_value } => {
            (format!("{shown} is not allowed here"), format!("write {expected_value}"))
        }
        Error::Enum { options } => {
            let words: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            not_among(pointer, &words, scene)
        }
        Error::Pattern { pattern } => bad_pattern(pointer, pattern, scene),
        Error::Minimum { limit } => {
            (format!("{shown} is too small"), format!("write {limit} or more"))
        }
        Error::Maximum { limit } => {
            (format!("{shown} is too large"), format!("write {limit} or less"))
        }
        Error::ExclusiveMinimum { limit } => {
            (format!("{shown} is too small"), format!("write more than {limit}"))
        }
        Error::ExclusiveMaximum { limit } => {
            (format!("{shown} is too large"), format!("write less than {limit}"))
        }
        Error::MinItems { limit } | Error::MinProperties { limit } => {
            (format!("{shown} has too few entries"), format!("write at least {limit}"))
        }
        Error::MaxItems { limit } | Error::MaxProperties { limit } => {
            (format!("{shown} has too many entries"), format!("write at most {limit}"))
        }
        Error::MinLength { limit } => {
            (format!("{shown} is too short"), format!("write at least {limit} characters"))
        }
        Error::MaxLength { limit } => {
            (format!("{shown} is too long"), format!("write at most {limit} characters"))
        }
        Error::UniqueItems => {
            (format!("{shown} names something twice"), "keep each entry once".to_owned())
        }
        other => (format!("{shown} does not fit ({})", other.keyword()), scene.wanted(pointer)),
    }
}

/// A text that is none of `words`.
pub(super) fn not_among(pointer: &str, words: &[&str], scene: &Scene<'_>) -> (String, String) {
    let written = scene.value.pointer(pointer).and_then(Value::as_str);
    let meant = written.and_then(|word| nearest(word, words.iter().copied()));
    let all = one_of(words);
    let fix = match meant {
        Some(meant) => format!("did you mean `{meant}`? Allowed: {all}"),
        None => format!("write {all}"),
    };
    (format!("{} is not allowed here", scene.shown(pointer)), fix)
}

/// A value of the wrong type. The usual cause is YAML taking text for a number.
pub(super) fn wrong_type(pointer: &str, scene: &Scene<'_>) -> (String, String) {
    let types = scene.schema.at(pointer).types();
    let shown = scene.shown(pointer);
    let plain = scene.places.get(pointer).and_then(|place| place.plain.as_deref());
    let found = scene.value.pointer(pointer);
    if let (Some(Value::Number(_) | Value::Bool(_)), Some(text)) = (found, plain)
        && types.contains(&"string")
    {
        let fix = if scene.is_secret(pointer) {
            "write it in quotes".to_owned()
        } else if let Some(unit) = unit_hint(pointer, text, scene) {
            return (format!("{shown} has no unit"), unit);
        } else {
            format!("write \"{text}\" in quotes")
        };
        let what = if matches!(found, Some(Value::Bool(_))) { "true/false" } else { "a number" };
        return (format!("YAML reads {shown} as {what}, and text belongs here"), fix);
    }
    if types.contains(&"boolean") && matches!(plain, Some("yes" | "no" | "on" | "off" | "y" | "n"))
    {
        let fix = if matches!(plain, Some("yes" | "on" | "y")) { "true" } else { "false" };
        return (format!("{shown} is not true or false"), format!("write {fix}"));
    }
    let quoted = match found {
        Some(Value::String(text)) if plain.is_none() => scalar::resolve(text),
        _ => Value::Null,
    };
    let fits = quoted.is_boolean() && types.contains(&"boolean")
        || quoted.is_number() && types.iter().any(|name| *name == "integer" || *name == "number");
    let one = found.and_then(Value::as_str).filter(|_| types == ["array"]);
    let fix = match one {
        _ if scene.is_secret(pointer) => scene.wanted(pointer),
        _ if fits => format!("write {quoted} without quotes"),
        Some(one) if one.len() < 40 => format!("write a list: [{one}]"),
        _ => scene.wanted(pointer),
    };
    (format!("{shown} does not belong here"), fix)
}

/// `timeout: 5` lacks a unit rather than quotes.
fn unit_hint(pointer: &str, text: &str, scene: &Scene<'_>) -> Option<String> {
    let whole = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let pattern = scene.pattern(pointer)?;
    if !whole {
        return unit_examples(&pattern);
    }
    if pattern.contains("KiB") {
        Some(format!("write `{text}B` or `{text}KiB`"))
    } else if pattern.contains("ms|") {
        Some(format!("write `{text}ms` or `{text}s`"))
    } else {
        None
    }
}

fn unit_examples(pattern: &str) -> Option<String> {
    if pattern.contains("KiB") {
        Some("write a whole number with a unit: `512B`, `64KiB`, `16MiB` or `1GiB`".to_owned())
    } else if pattern.contains("ms|") {
        Some("write a whole number with a unit: `250ms`, `30s`, `5m`, `24h` or `7d`".to_owned())
    } else {
        None
    }
}

fn bad_pattern(pointer: &str, pattern: &str, scene: &Scene<'_>) -> (String, String) {
    let shown = scene.shown(pointer);
    match unit_examples(pattern) {
        Some(fix) if pattern.contains("KiB") => (format!("{shown} is not a size"), fix),
        Some(fix) => (format!("{shown} is not a duration"), fix),
        None => (
            format!("{shown} is not in the form asked for"),
            format!("write what matches {pattern}"),
        ),
    }
}
