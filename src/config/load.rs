//! File → [`Config`], or everything that is wrong with it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::Document;
use super::environment::Environment;
use super::report::Report;
use super::root::{self, Config, Parts};
use super::schema::Schema;
use super::{cross, reference};
use crate::model::Problem;

/// A sound configuration, with what is needed to say more about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration; secrets from files are in their places.
    pub config: Config,
    document: Document,
}

impl Loaded {
    /// The folder of the configuration file, at which its relative paths start.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.document.base()
    }

    /// The configuration file.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.document.file()
    }

    /// Where the values of `section` differ from those of `other`: dotted keys, no values.
    #[must_use]
    pub fn differences(&self, other: &Self, section: &str) -> Vec<String> {
        let mut found = Vec::new();
        let (mine, theirs) = (self.document.raw(section), other.document.raw(section));
        differing(mine, theirs, section.to_owned(), &mut found);
        found
    }

    /// A short hash of every value but the secrets.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.document.revision()
    }

    /// `problems` found later (their pointers start at the whole configuration) with their places.
    #[must_use]
    pub fn report(&self, problems: impl IntoIterator<Item = Problem>) -> Report {
        self.document.report_of(problems)
    }

    /// What is odd, but works.
    #[must_use]
    pub fn notes(&self) -> Report {
        self.report(cross::notes(&self.config))
    }
}

/// Reads and checks `file` with the overrides of this process's environment. Opens no port and
/// calls nobody; of other files it reads those of secrets alone.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load(file: &Path) -> Result<Loaded, Report> {
    load_with(file, &Environment::of_process(), |_, _| Vec::new())
}

/// As [`load`], with the overrides of `environment`. `probe` says what else is wrong (a policy that
/// does not compile, a key file that holds no keys) with the sections that could be read, whose
/// relative paths start at the given folder. It is called only where the configuration has faults
/// already: a sound one is built by the caller, which meets these problems then.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load_with(
    file: &Path,
    environment: &Environment,
    probe: impl FnOnce(&Parts, &Path) -> Vec<Problem>,
) -> Result<Loaded, Report> {
    let schema = schema().map_err(|message| Report::whole(file, message, ""))?;
    let mut document = Document::read(file, environment, &schema)?;
    let parts = root::sections(&mut document);
    document.note(cross::problems(&parts));
    if let Some(config) = document.whole::<Config>() {
        return Ok(Loaded { config, document });
    }
    let more = probe(&parts, document.base());
    document.note(more);
    Err(document.report())
}

fn differing(a: Option<&Value>, b: Option<&Value>, at: String, found: &mut Vec<String>) {
    if a == b {
        return;
    }
    let empty = serde_json::Map::new();
    let object = |value: Option<&Value>| match value {
        None => Some(empty.clone()),
        Some(Value::Object(object)) => Some(object.clone()),
        Some(_) => None,
    };
    let (Some(mine), Some(theirs)) = (object(a), object(b)) else { return found.push(at) };
    let keys: std::collections::BTreeSet<_> = mine.keys().chain(theirs.keys()).collect();
    if keys.is_empty() {
        return;
    }
    for key in keys {
        let next = format!("{at}.{key}");
        let is_leaf = |v: Option<&Value>| v.is_some_and(|v| !v.is_object());
        let (mine, theirs) = (mine.get(key), theirs.get(key));
        if mine != theirs && (is_leaf(mine) || is_leaf(theirs)) {
            found.push(next);
        } else {
            differing(mine, theirs, next, found);
        }
    }
}

/// `file` and every file and folder that it names, sound or not; `file` alone where it is no YAML.
#[must_use]
pub fn files(file: &Path, environment: &Environment) -> Vec<PathBuf> {
    let document = schema().ok().and_then(|s| Document::read(file, environment, &s).ok());
    let named = document.map(|document| document.inputs().to_vec()).unwrap_or_default();
    std::iter::once(file.to_owned()).chain(named).collect()
}

/// YAML or JSON text that is no configuration, such as the description of a request, as a
/// value; `name` is what messages call it.
///
/// # Errors
/// Where the text is not YAML as a configuration may use it (no duplicate keys, no aliases, …).
pub fn yaml_value(name: &Path, text: &str) -> Result<serde_json::Value, Report> {
    let (root, faults) =
        super::yaml::parse(text).map_err(|fault| Report::new(name, vec![fault]))?;
    if faults.is_empty() { Ok(root.to_value()) } else { Err(Report::new(name, faults)) }
}

fn schema() -> Result<Schema, String> {
    Schema::of::<Config>()
}

/// The JSON Schema of the configuration (draft 2020-12), indented, as it is committed.
///
/// # Errors
/// A fault of the types.
pub fn schema_json() -> Result<String, String> {
    let schema = schema()?;
    serde_json::to_string_pretty(schema.json()).map_err(|e| e.to_string())
}

/// The configuration reference as Markdown, as it is committed.
///
/// # Errors
/// A fault of the types.
pub fn reference_markdown() -> Result<String, String> {
    Ok(reference::markdown(&schema()?))
}
