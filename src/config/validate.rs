//! Tree against schema: every error at once, each with its place and what to write instead.

use std::collections::HashSet;

use jsonschema::error::ValidationErrorKind as Error;
use serde_json::Value;

use super::explain;
use super::report::{Fault, child};
use super::scalar;
use super::scene::Scene;
use super::schema::{Schema, Spot};
use super::tree::{Kind, Node, Places, Scalar};

/// Every place where `tree` is not what `schema` asks for.
pub(super) fn check(tree: &Node, value: &Value, places: &Places, schema: &Schema) -> Vec<Fault> {
    let mut faults = Vec::new();
    written_badly(tree, "", &schema.root(), schema, &mut faults);
    let scene = Scene { schema, value, places };
    // What YAML made of the text is said already; that it is no text then is no news.
    let mut said: HashSet<String> = faults.iter().map(|fault| fault.pointer.clone()).collect();
    for error in schema.validator().iter_errors(value) {
        let found = explain::explain(&error, &scene);
        let news: Vec<Fault> =
            found.into_iter().filter(|fault| !said.contains(&fault.pointer)).collect();
        // Several keys may be missing from one map.
        let about_values = news.iter().filter(|_| !matches!(error.kind(), Error::Required { .. }));
        said.extend(about_values.map(|fault| fault.pointer.clone()));
        faults.extend(news);
    }
    faults
}

/// Scalars that are no values at all, or that two readers would take differently.
fn written_badly<'a>(
    node: &Node,
    pointer: &str,
    spot: &Spot<'a>,
    schema: &'a Schema,
    faults: &mut Vec<Fault>,
) {
    match &node.kind {
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let segment = index.to_string();
                let next = schema.step(spot, &segment);
                written_badly(item, &child(pointer, &segment), &next, schema, faults);
            }
        }
        Kind::Map(entries) => {
            for (key, value) in entries {
                let next = schema.step(spot, &key.name);
                written_badly(value, &child(pointer, &key.name), &next, schema, faults);
            }
        }
        Kind::Scalar(scalar) => {
            if let Some((message, fix)) = scalar_fault(scalar, spot) {
                faults.push(Fault::new(node.origin.clone(), pointer, message, fix));
            }
        }
    }
}

fn scalar_fault(scalar: &Scalar, spot: &Spot<'_>) -> Option<(String, String)> {
    if scalar.value.is_null() {
        let fix = "write a value, or leave the key out";
        return Some(("there is no value here (null)".to_owned(), fix.to_owned()));
    }
    if !scalar.plain || spot.is_secret() {
        return None;
    }
    let types = spot.types();
    let wants_number = types.iter().any(|name| *name == "number" || *name == "integer");
    if !wants_number && !types.is_empty() {
        return None; // text belongs here, and the schema says so
    }
    let text = &scalar.text;
    let whole = types.contains(&"integer") && !types.contains(&"number");
    if let Some(number) = scalar.value.as_number()
        && whole
        && !(number.is_u64() || number.is_i64())
    {
        let fix = "write digits alone, within the range of the key";
        return Some((format!("`{text}` is no whole number that fits"), fix.to_owned()));
    }
    let plain = scalar::ambiguous(text)?;
    let fix = if types.contains(&"string") || types.is_empty() {
        format!("write {plain} for the number, or \"{text}\" in quotes for the text")
    } else {
        format!("write {plain}, if that is meant")
    };
    Some((format!("`{text}` is a number that readers of YAML take differently"), fix))
}
