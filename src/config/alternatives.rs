//! A value that fits none of several forms: which form was meant, and what it lacks.

use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Error;
use serde_json::Value;

use super::explain::{explain as explain_one, not_among, unknown_key, wrong_type};
use super::report::Fault;
use super::scene::Scene;
use super::suggest::one_of;

/// The faults of the value at `pointer`, where `branches` holds the errors of each form it may have.
pub(super) fn explain(
    pointer: &str,
    branches: &[Vec<ValidationError<'static>>],
    scene: &Scene<'_>,
) -> Vec<Fault> {
    if let Some(faults) = unknown_everywhere(pointer, scene) {
        return faults;
    }
    // Forms of another type altogether were not meant.
    let meant: Vec<&Vec<ValidationError<'static>>> = branches
        .iter()
        .filter(|errors| !errors.iter().any(|error| is_other_kind(error, pointer)))
        .collect();
    let Some(fewest) = meant.iter().map(|errors| score(errors, pointer)).min() else {
        return vec![none_fits(pointer, scene)];
    };
    let best: Vec<_> = meant.iter().filter(|errors| score(errors, pointer) == fewest).collect();
    if let Some(fault) = needs_one_of(pointer, &best, scene) {
        return vec![fault];
    }
    if let Some(fault) = tag_is_none(pointer, &best, scene) {
        return vec![fault];
    }
    let errors = best.first().into_iter().flat_map(|errors| errors.iter());
    errors.flat_map(|error| explain_one(error, scene)).collect()
}

/// Keys that no form knows are the likeliest slip: they are said alone.
fn unknown_everywhere(pointer: &str, scene: &Scene<'_>) -> Option<Vec<Fault>> {
    let Some(Value::Object(object)) = scene.value.pointer(pointer) else { return None };
    let spot = scene.schema.at(pointer);
    let known = spot.keys();
    if spot.has_free_keys() || known.is_empty() {
        return None;
    }
    let unknown: Vec<&String> = object.keys().filter(|k| !known.contains(&k.as_str())).collect();
    (!unknown.is_empty())
        .then(|| unknown.iter().map(|key| unknown_key(pointer, key, scene)).collect())
}

/// The value itself is of another type than this form, or another word than this constant.
fn is_other_kind(error: &ValidationError<'_>, pointer: &str) -> bool {
    error.instance_path().as_str() == pointer
        && matches!(error.kind(), Error::Type { .. } | Error::Constant { .. } | Error::Enum { .. })
}

/// How far a form is from what was written; a tag (`type: …`) that names another form is far.
fn score(errors: &[ValidationError<'_>], pointer: &str) -> usize {
    let other_tag = errors.iter().filter(|error| is_tag(error, pointer)).count();
    let nested: usize = errors
        .iter()
        .map(|error| match error.kind() {
            Error::AdditionalProperties { unexpected } => unexpected.len() * 2,
            _ => 1,
        })
        .sum();
    nested + other_tag * 100
}

fn is_tag(error: &ValidationError<'_>, pointer: &str) -> bool {
    let path = error.instance_path().as_str();
    let direct = path.rsplit_once('/').is_some_and(|(parent, _)| parent == pointer);
    direct && matches!(error.kind(), Error::Constant { .. })
}

fn none_fits(pointer: &str, scene: &Scene<'_>) -> Fault {
    let constants = scene.schema.at(pointer).constants();
    let text = scene.value.pointer(pointer).is_some_and(Value::is_string);
    let (message, fix) = if text && !constants.is_empty() {
        not_among(pointer, &constants, scene)
    } else {
        wrong_type(pointer, scene)
    };
    scene.fault(pointer, message, fix)
}

/// Each form lacks just its own key: any of them will do.
fn needs_one_of(
    pointer: &str,
    best: &[&&Vec<ValidationError<'static>>],
    scene: &Scene<'_>,
) -> Option<Fault> {
    let mut keys = BTreeSet::new();
    for errors in best {
        let [error] = errors.as_slice() else { return None };
        let Error::Required { property } = error.kind() else { return None };
        if error.instance_path().as_str() != pointer {
            return None;
        }
        keys.insert(property.as_str()?.to_owned());
    }
    let keys: Vec<String> = keys.into_iter().collect();
    (keys.len() > 1).then(|| {
        let message = "this lacks the key that says which form it has";
        scene.fault(pointer, message, format!("add {}", one_of(&keys)))
    })
}

/// Every form has another tag than the one written.
fn tag_is_none(
    pointer: &str,
    best: &[&&Vec<ValidationError<'static>>],
    scene: &Scene<'_>,
) -> Option<Fault> {
    let tags: Vec<&ValidationError<'static>> = best
        .iter()
        .map(|errors| errors.iter().find(|error| is_tag(error, pointer)))
        .collect::<Option<_>>()?;
    let at = tags.first()?.instance_path().as_str();
    let known = scene.schema.at(at);
    let (message, fix) = not_among(at, &known.constants(), scene);
    Some(scene.fault(at, message, fix))
}
