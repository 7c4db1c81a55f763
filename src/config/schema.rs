//! The JSON Schema of the configuration, generated from its types, and questions about it.

use std::collections::HashSet;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

use super::report::segments;

/// The schema of one configuration type.
pub(crate) struct Schema {
    root: Value,
    validator: jsonschema::Validator,
}

/// What the schema says about one place: every alternative that may stand there, references
/// followed.
pub(crate) struct Spot<'a>(Vec<&'a Map<String, Value>>);

impl Schema {
    /// The schema of `T`.
    ///
    /// # Errors
    /// A schema that is none; a fault of the types, which no configuration can cause.
    pub(crate) fn of<T: schemars::JsonSchema>() -> Result<Self, String> {
        let root = generate::<T>();
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .offline()
            .build(&root)
            .map_err(|e| format!("the generated schema is no schema: {e}"))?;
        Ok(Self { root, validator })
    }

    pub(crate) fn json(&self) -> &Value {
        &self.root
    }

    pub(crate) fn validator(&self) -> &jsonschema::Validator {
        &self.validator
    }

    /// The whole configuration.
    pub(crate) fn root(&self) -> Spot<'_> {
        self.expand([&self.root])
    }

    /// What the schemas `start` allow together.
    pub(crate) fn spot<'a>(&'a self, start: impl IntoIterator<Item = &'a Value>) -> Spot<'a> {
        self.expand(start)
    }

    /// What may stand at `pointer`.
    pub(crate) fn at(&self, pointer: &str) -> Spot<'_> {
        segments(pointer).fold(self.root(), |spot, segment| self.step(&spot, &segment))
    }

    /// What may stand under `segment` (a key, or an index) of `spot`.
    pub(crate) fn step<'a>(&'a self, spot: &Spot<'a>, segment: &str) -> Spot<'a> {
        let index = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
        let next = spot.0.iter().filter_map(|alternative| {
            let named = alternative.get("properties").and_then(|all| all.get(segment));
            let item = index.then(|| alternative.get("items")).flatten();
            named.or(item).or_else(|| alternative.get("additionalProperties"))
        });
        self.expand(next)
    }

    /// `start` with its references and alternatives. A set of visited places ends cycles.
    fn expand<'a>(&'a self, start: impl IntoIterator<Item = &'a Value>) -> Spot<'a> {
        let mut queue: Vec<&Value> = start.into_iter().collect();
        queue.reverse();
        let mut seen = HashSet::new();
        let mut alternatives = Vec::new();
        while let Some(schema) = queue.pop() {
            let Value::Object(object) = schema else { continue };
            if !seen.insert(std::ptr::from_ref(object)) {
                continue;
            }
            alternatives.push(object);
            let target = object.get("$ref").and_then(Value::as_str);
            queue.extend(target.and_then(|r| self.root.pointer(r.trim_start_matches('#'))));
            for key in ["anyOf", "oneOf", "allOf"] {
                let branches = object.get(key).and_then(Value::as_array);
                queue.extend(branches.into_iter().flatten().rev());
            }
        }
        Spot(alternatives)
    }
}

impl<'a> Spot<'a> {
    /// Every alternative, the first one nearest to the place.
    pub(crate) fn alternatives(&self) -> &[&'a Map<String, Value>] {
        &self.0
    }

    /// The keys that a map may have here.
    pub(crate) fn keys(&self) -> Vec<&'a str> {
        let mut keys = Vec::new();
        for alternative in &self.0 {
            let named = alternative.get("properties").and_then(Value::as_object);
            for key in named.into_iter().flat_map(Map::keys) {
                if !keys.contains(&key.as_str()) {
                    keys.push(key.as_str());
                }
            }
        }
        keys
    }

    /// True where a map may have keys that the schema does not name.
    pub(crate) fn has_free_keys(&self) -> bool {
        self.0
            .iter()
            .any(|a| a.get("additionalProperties").is_some_and(|v| *v != Value::Bool(false)))
    }

    /// The schemas of entries whose keys the schema does not name.
    pub(crate) fn free_values(&self) -> Vec<&'a Value> {
        self.0.iter().filter_map(|a| a.get("additionalProperties")).collect()
    }

    /// True where a map here cannot be without `key`, whichever form it has.
    pub(crate) fn requires(&self, key: &str) -> bool {
        let has = |a: &&&Map<String, Value>| {
            a.get("properties").is_some_and(|all| all.get(key).is_some())
        };
        let asks = |a: &&Map<String, Value>| {
            let listed = a.get("required").and_then(Value::as_array);
            listed.is_some_and(|all| all.iter().any(|name| name == key))
        };
        let mut forms = self.0.iter().filter(has).peekable();
        forms.peek().is_some() && forms.all(asks)
    }

    /// True where the type called `name` may stand.
    pub(crate) fn names(&self, name: &str) -> bool {
        let target = format!("#/$defs/{name}");
        self.0.iter().any(|a| a.get("$ref").and_then(Value::as_str) == Some(&target))
    }

    /// The JSON types that may stand here; empty where anything may.
    pub(crate) fn types(&self) -> Vec<&'a str> {
        let mut types = Vec::new();
        for alternative in &self.0 {
            let listed = match alternative.get("type") {
                Some(Value::String(one)) => vec![one.as_str()],
                Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
                _ if alternative.contains_key("const") || alternative.contains_key("enum") => {
                    vec!["string"]
                }
                _ => Vec::new(),
            };
            for name in listed {
                if !types.contains(&name) {
                    types.push(name);
                }
            }
        }
        types
    }

    /// True where a value must not be shown (`writeOnly`, JSON Schema 2020-12 validation 9.4).
    pub(crate) fn is_secret(&self) -> bool {
        self.0.iter().any(|a| a.get("writeOnly") == Some(&Value::Bool(true)))
    }

    /// The texts that may stand here, where the schema lists them.
    pub(crate) fn constants(&self) -> Vec<&'a str> {
        let mut texts = Vec::new();
        for alternative in &self.0 {
            let listed = alternative.get("enum").and_then(Value::as_array);
            let all = listed.into_iter().flatten().chain(alternative.get("const"));
            texts.extend(all.filter_map(Value::as_str));
        }
        texts
    }
}

/// The schema of `T` as JSON Schema 2020-12.
fn generate<T: schemars::JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .with_transform(NoNulls)
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert("title".to_owned(), "Portcullis configuration".into());
    schema.to_value()
}

/// Optional values are left out, never written as null: `clients:` with nothing behind it must not
/// mean "no restriction".
#[derive(Debug, Clone)]
struct NoNulls;

impl Transform for NoNulls {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("default") == Some(&Value::Null) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [one] = types.as_slice() {
                let one = one.clone();
                object.insert("type".to_owned(), one);
            }
        }
        let null = serde_json::json!({ "type": "null" });
        if let Some(Value::Array(values)) = object.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(branches)) = object.get_mut("anyOf") {
            branches.retain(|branch| *branch != null);
            if let [Value::Object(one)] = branches.as_slice() {
                let one = one.clone();
                object.remove("anyOf");
                for (key, value) in one {
                    object.entry(key).or_insert(value);
                }
            }
        }
    }
}
