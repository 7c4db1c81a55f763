//! Policies and data from files and folders, taken whole and settled.
//!
//! A path is a file or a folder. Of a folder every `.rego` and `.json` file below it is taken,
//! tests (`_test.rego`) and hidden names left out, as `opa eval -d FOLDER` does: a JSON document
//! is merged at the data path that its folder has within the configured one, and its file name
//! is no part of that path (`FOLDER/regions/data.json` is `data.regions`). A JSON file that is
//! configured itself is merged at the root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::{Digest, Hasher, Problem};

/// Folders deeper than this are a circle of links.
const MAX_DEPTH: usize = 32;
/// All files together.
const MAX_BYTES: u64 = 256 << 20;
/// How long the files must stay as they are to count as settled, and how often that is tried.
const SETTLE: Duration = Duration::from_millis(10);
const TRIES: u32 = 50;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    /// As configured, with the path below the folder.
    pub(super) name: String,
    /// Data path at which a document is merged; `None` for a module.
    pub(super) at: Option<Vec<String>>,
    pub(super) text: String,
}

/// Everything that was read, in the order of names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) files: Vec<File>,
    pub(super) digest: Digest,
}

/// Reads `paths`, each relative to `base`, until two readings agree.
pub(super) fn read(paths: &[PathBuf], base: &Path) -> Result<Sources, Vec<Problem>> {
    settled(|| read_once(paths, base)).unwrap_or_else(|| {
        Err(vec![Problem::new(
            "/paths",
            "the policy files change while they are read",
            "replace them at once, for example by renaming a folder into place",
        )])
    })
}

/// The first reading that is the same again a moment later.
fn settled<T: PartialEq>(mut read: impl FnMut() -> T) -> Option<T> {
    let mut last = read();
    for _ in 0..TRIES {
        std::thread::sleep(SETTLE);
        let next = read();
        if last == next {
            return Some(next);
        }
        last = next;
    }
    None
}

fn read_once(paths: &[PathBuf], base: &Path) -> Result<Sources, Vec<Problem>> {
    let mut reader = Reader { files: Vec::new(), left: MAX_BYTES };
    let mut problems = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let before = reader.files.len();
        let read = reader.path(&base.join(path), &path.to_string_lossy());
        let nothing = read.is_ok() && reader.files.len() == before;
        let failed = read.err().map(|failed| (failed, "name a readable file or folder"));
        let nothing = nothing.then(|| {
            ("has neither .rego nor .json files".to_owned(), "name where the policies are")
        });
        for (message, fix) in failed.into_iter().chain(nothing) {
            let message = format!("`{}` {message}", path.display());
            problems.push(Problem::new(format!("/paths/{index}"), message, fix));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut files = reader.files;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.dedup();
    let mut hasher = Hasher::new("policies");
    for file in &files {
        hasher.push(file.name.as_bytes());
        hasher.push(file.text.as_bytes());
    }
    Ok(Sources { digest: hasher.finish(), files })
}

struct Reader {
    files: Vec<File>,
    left: u64,
}

impl Reader {
    fn path(&mut self, path: &Path, name: &str) -> Result<(), String> {
        let name = name.trim_end_matches('/');
        let meta = fs::metadata(path).map_err(|e| format!("cannot be read: {e}"))?;
        if meta.is_dir() {
            return self.folder(path, name, &[]);
        }
        if kind(name) == Kind::Other {
            return Err("is neither a .rego nor a .json file".to_owned());
        }
        self.file(path, name.to_owned(), &[])
    }

    fn folder(&mut self, path: &Path, name: &str, at: &[String]) -> Result<(), String> {
        if at.len() > MAX_DEPTH {
            return Err("has folders nested too deeply".to_owned());
        }
        let wrong = |e: std::io::Error| format!("cannot be read: {e}");
        let mut entries =
            fs::read_dir(path).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Some(own) = entry.file_name().to_str().map(str::to_owned) else { continue };
            // Hidden names are editors' files and the folders behind a Kubernetes mount's links.
            if own.starts_with('.') {
                continue;
            }
            let (path, name) = (entry.path(), format!("{name}/{own}"));
            let meta = fs::metadata(&path).map_err(|e| format!("has `{name}`: {e}"))?;
            if meta.is_dir() {
                self.folder(&path, &name, &[at, &[own]].concat())?;
            } else if kind(&own) != Kind::Other {
                self.file(&path, name, at)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, at: &[String]) -> Result<(), String> {
        let bytes = fs::read(path).map_err(|e| format!("has `{name}`: {e}"))?;
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| format!("is larger than {} MiB", MAX_BYTES >> 20))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("has `{name}`: not UTF-8"))?;
        let at = (kind(&name) == Kind::Data).then(|| at.to_vec());
        self.files.push(File { name, at, text });
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Kind {
    Module,
    Data,
    Other,
}

fn kind(name: &str) -> Kind {
    let path = Path::new(name);
    match path.extension().and_then(|e| e.to_str()) {
        Some("rego") if !name.ends_with("_test.rego") => Kind::Module,
        Some("json") => Kind::Data,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_2_only_a_set_that_stays_as_it_is_is_taken() {
        let mut readings = [1, 2, 3, 3, 4].into_iter();
        assert_eq!(settled(|| readings.next().unwrap()), Some(3));
        let mut changing = 0..;
        assert_eq!(settled(|| changing.next()), None);
    }
}
