//! One configuration file, read with its overrides and secrets, and checked against a schema.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::environment::{self, Environment};
use super::report::{Fault, Report, child, segments};
use super::schema::Schema;
use super::tree::Places;
use super::{inputs, secrets, validate, yaml};
use crate::model::Problem;

/// Largest configuration file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// The values of a configuration with where each was written.
pub(crate) struct Document {
    file: PathBuf,
    base: PathBuf,
    value: Value,
    places: Places,
    revision: String,
    inputs: Vec<PathBuf>,
    faults: Vec<Fault>,
}

impl std::fmt::Debug for Document {
    /// The name alone: secrets are among the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Document").field(&self.file).finish()
    }
}

impl Document {
    /// Reads `file`; the document knows its faults.
    ///
    /// # Errors
    /// A file that cannot be read, or is no YAML, so that nothing else can be said about it.
    pub(crate) fn read(
        file: &Path,
        environment: &Environment,
        schema: &Schema,
    ) -> Result<Self, Report> {
        let text = text(file)?;
        let (mut tree, mut faults) =
            yaml::parse(&text).map_err(|fault| Report::new(file, vec![fault]))?;
        faults.extend(environment::apply(&mut tree, environment, schema));
        let mut places = tree.places();
        let mut value = tree.to_value();
        let ill_formed = validate::check(&tree, &value, &places, schema);
        for fault in ill_formed.iter().filter(|fault| fault.left_out) {
            leave_out(&mut value, &fault.pointer);
        }
        faults.extend(ill_formed);
        let base = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let inputs = inputs::of(&value, &base);
        faults.extend(secrets::resolve(&mut value, &mut places, schema, &base));
        let public = secrets::without(&value, schema).to_string();
        let revision = blake3::hash(public.as_bytes()).to_hex().chars().take(16).collect();
        Ok(Self { file: file.to_owned(), base, value, places, revision, inputs, faults })
    }

    /// The folder that relative paths start at.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The file that was read.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Every file and folder that it names.
    pub(crate) fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// The value of the section `name`.
    pub(crate) fn raw(&self, name: &str) -> Option<&Value> {
        self.value.get(name)
    }

    /// A short hash of every value but the secrets.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }

    /// Notes `problems`, whose pointers start at the whole configuration.
    pub(crate) fn note(&mut self, problems: impl IntoIterator<Item = Problem>) {
        let faults = self.located(problems);
        self.faults.extend(faults);
    }

    /// All that was noted.
    pub(crate) fn report(&self) -> Report {
        Report::new(&self.file, self.faults.clone())
    }

    /// A report of `problems` alone.
    pub(crate) fn report_of(&self, problems: impl IntoIterator<Item = Problem>) -> Report {
        Report::new(&self.file, self.located(problems))
    }

    fn located(&self, problems: impl IntoIterator<Item = Problem>) -> Vec<Fault> {
        let place = |problem: Problem| {
            let origin = self.places.nearest(&problem.pointer);
            Fault::new(origin, problem.pointer, problem.message, problem.fix)
        };
        problems.into_iter().map(place).collect()
    }

    /// The section `name` as a value of its type; the default where it was left out. Nothing where
    /// it has faults; what the type itself refuses is noted as one.
    pub(crate) fn section<T: DeserializeOwned + Default>(&mut self, name: &str) -> Option<T> {
        let pointer = child("", name);
        let below = child(&pointer, "");
        let is_inside = |f: &Fault| f.pointer == pointer || f.pointer.starts_with(&below);
        if self.faults.iter().any(|fault| !fault.left_out && is_inside(fault)) {
            return None;
        }
        match self.value.get(name).cloned() {
            Some(value) => self.typed(value, &pointer),
            None => Some(T::default()),
        }
    }

    /// The whole configuration; nothing where anything is at fault.
    pub(crate) fn whole<T: DeserializeOwned>(&mut self) -> Option<T> {
        let value = self.value.clone();
        if self.faults.is_empty() { self.typed(value, "") } else { None }
    }

    fn typed<T: DeserializeOwned>(&mut self, value: Value, pointer: &str) -> Option<T> {
        let error = match serde_path_to_error::deserialize(value) {
            Ok(typed) => return Some(typed),
            Err(error) => error,
        };
        let at = error.path().iter().fold(pointer.to_owned(), |at, segment| match segment {
            serde_path_to_error::Segment::Seq { index } => child(&at, &index.to_string()),
            serde_path_to_error::Segment::Map { key } => child(&at, key),
            serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => at,
        });
        self.note([Problem::new(at, error.inner().to_string(), "")]);
        None
    }
}

/// Removes the map entry at `pointer`.
fn leave_out(value: &mut Value, pointer: &str) {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let key = segments(pointer).last().unwrap_or_default();
    if let Some(Value::Object(object)) = value.pointer_mut(parent) {
        object.remove(&key);
    }
}

/// The text of `file`, without a byte order mark.
fn text(file: &Path) -> Result<String, Report> {
    let unreadable = |e: &std::io::Error| {
        let fix = "name a readable file with --config";
        Report::whole(file, format!("the configuration file cannot be read: {e}"), fix)
    };
    let opened = File::open(file).map_err(|e| unreadable(&e))?;
    if opened.metadata().is_ok_and(|meta| meta.is_dir()) {
        let fix = "name a file in it with --config";
        return Err(Report::whole(file, "this is a directory", fix));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE {
        let message = format!("the file is larger than {} MiB", MAX_FILE >> 20);
        return Err(Report::whole(file, message, "make it smaller"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..valid).unwrap_or_default();
            Err(Report::new(file, vec![not_utf8(before)]))
        }
    }
}

fn not_utf8(before: &[u8]) -> Fault {
    let before = String::from_utf8_lossy(before);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    let origin = super::report::Origin::File { line, column };
    Fault::new(origin, "", "the file is not UTF-8 from here", "save it as UTF-8")
}
