//! A small configuration with one of everything that room types use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::document::Document;
use crate::config::environment::Environment;
use crate::config::report::Report;
use crate::config::schema::Schema;
use crate::model::{HumanDuration, HumanSize, Secret};

/// A configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// Doors by name. A second sentence.
    pub(super) listen: Listen,
    /// How long a call may take.
    pub(super) timeout: Option<HumanDuration>,
    /// Room for answers.
    pub(super) cache: Option<HumanSize>,
    /// Threads.
    #[schemars(range(min = 1, max = 64))]
    pub(super) threads: Option<u16>,
    /// Whether to be strict.
    pub(super) strict: Option<bool>,
    /// A version.
    pub(super) version: Option<String>,
    /// Who may call.
    #[schemars(length(min = 1))]
    pub(super) clients: Option<Vec<String>>,
    /// The remote API.
    pub(super) api: Option<Api>,
    /// Routes.
    #[serde(default)]
    pub(super) routes: Vec<Route>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Listen {
    /// Addresses.
    pub(super) check: Vec<Address>,
    /// Addresses.
    #[serde(default)]
    pub(super) admin: Vec<Address>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Address {
    /// An address.
    Plain(String),
    /// An address with words.
    Full(FullAddress),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FullAddress {
    /// The address.
    pub(super) address: String,
    /// Why.
    pub(super) plaintext: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Api {
    /// Where it is.
    pub(super) url: Option<String>,
    /// The key.
    pub(super) key: Option<Secret<String>>,
    /// The file that holds `key`.
    pub(super) key_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// Name of the route.
    pub(super) name: String,
    /// Who may pass.
    pub(super) access: Option<Access>,
    /// Where keys come from.
    pub(super) keys: Option<Keys>,
    /// What is done on failure.
    pub(super) failure: Option<Failure>,
    /// Headers to match.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Access {
    /// Anybody.
    Public,
    /// With a credential or without.
    Optional,
    /// With a credential.
    Authenticated,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Keys {
    /// By discovery.
    Discovery(bool),
    /// From a URL.
    JwksUri(String),
    /// From a file.
    File(PathBuf),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Failure {
    /// Closed.
    Closed,
    /// Stale.
    Stale {
        /// How long.
        stale_for: HumanDuration,
    },
}

/// `file` read as a [`Sample`].
pub(super) fn load(file: &Path, variables: &[(&str, &str)]) -> Result<Sample, Report> {
    let schema = Schema::of::<Sample>().unwrap();
    let environment: Environment =
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut document = Document::read(file, &environment, &schema)?;
    document.whole().ok_or_else(|| document.report())
}

/// A folder for the files of one test, removed when it is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("portcullis-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes `content` to the file `name`.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `text` read as a [`Sample`], with the report's lines freed of the folder's name.
pub(super) fn load_text(
    name: &str,
    text: impl AsRef<[u8]>,
    variables: &[(&str, &str)],
) -> Result<Sample, Vec<String>> {
    let folder = Folder::new(name);
    let file = folder.write("portcullis.yaml", text);
    load(&file, variables).map_err(|report| lines(&report, folder.path()))
}

/// The lines of `report` without `folder`.
pub(super) fn lines(report: &Report, folder: &Path) -> Vec<String> {
    let folder = format!("{}/", folder.display());
    report.to_string().lines().map(|line| line.replace(&folder, "")).collect()
}
