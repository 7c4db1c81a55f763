//! Whether the files of a configuration are what they were.
//!
//! The content is looked at, at an interval: it is the same for files written in place, replaced
//! by renaming, and behind the links that Kubernetes swaps (`..data`), on every file system, and a
//! few files cost less than a millisecond. Notices of the kernel would miss the links' targets
//! and network file systems.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Folders deeper than this are a circle of links.
const MAX_DEPTH: usize = 32;

/// A hash of names and contents.
pub(super) type Print = blake3::Hash;

/// The hash of everything at `paths`: files, and folders without their hidden names. What cannot
/// be read counts as such, so that its coming or going is a change.
pub(super) fn print(paths: &[PathBuf]) -> Print {
    let mut hasher = blake3::Hasher::new();
    for path in paths {
        add(&mut hasher, path, 0);
    }
    hasher.finalize()
}

fn add(hasher: &mut blake3::Hasher, path: &Path, depth: usize) {
    name(hasher, path);
    let Ok(meta) = fs::metadata(path) else {
        hasher.update(b"none");
        return;
    };
    if meta.is_file() {
        file(hasher, path);
    } else if meta.is_dir() && depth < MAX_DEPTH {
        folder(hasher, path, depth);
    }
}

fn name(hasher: &mut blake3::Hasher, path: &Path) {
    let bytes = path.as_os_str().as_encoded_bytes();
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

fn file(hasher: &mut blake3::Hasher, path: &Path) {
    let mut content = blake3::Hasher::new();
    let read = fs::File::open(path).and_then(|file| {
        let mut reader = file.take(u64::MAX);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(()),
                n => content.update(buffer.get(..n).unwrap_or_default()),
            };
        }
    });
    let state: &[u8] = if read.is_ok() { b"file" } else { b"unreadable" };
    hasher.update(state).update(content.finalize().as_bytes());
}

fn folder(hasher: &mut blake3::Hasher, path: &Path, depth: usize) {
    let Ok(entries) = fs::read_dir(path) else {
        hasher.update(b"unreadable");
        return;
    };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    // Hidden names are editors' files and the folders behind a Kubernetes mount's links.
    entries.retain(|own| !own.as_encoded_bytes().starts_with(b"."));
    entries.sort();
    hasher.update(b"folder").update(&(entries.len() as u64).to_le_bytes());
    for own in entries {
        add(hasher, &path.join(own), depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("watch-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn every_kind_of_change_shows_and_nothing_else_does() {
        let base = scratch("kinds");
        let paths = [base.join("file"), base.join("folder")];
        let mut seen = vec![print(&paths)];
        let mut changed = |what: &str, differs: bool| {
            let now = print(&paths);
            assert_eq!(now != *seen.last().unwrap(), differs, "{what}");
            seen.push(now);
        };
        fs::write(base.join("file"), "a").unwrap();
        changed("a file came", true);
        fs::write(base.join("file"), "a").unwrap();
        changed("written again", false);
        fs::write(base.join("file"), "b").unwrap();
        changed("same length", true);
        fs::create_dir_all(base.join("folder/deep")).unwrap();
        fs::write(base.join("folder/deep/x"), "1").unwrap();
        changed("a folder came", true);
        fs::write(base.join("folder/.x.swp"), "1").unwrap();
        changed("an editor's file", false);
        fs::rename(base.join("folder/deep/x"), base.join("folder/deep/y")).unwrap();
        changed("another name", true);
        fs::remove_file(base.join("file")).unwrap();
        changed("a file went", true);
        symlink(base.join("folder"), base.join("folder/circle")).unwrap();
        changed("a circle ends", true);
    }

    #[test]
    fn a_swap_of_kubernetes_links_shows() {
        let base = scratch("links");
        for (version, text) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(base.join(version)).unwrap();
            fs::write(base.join(version).join("p.rego"), text).unwrap();
        }
        symlink("..1", base.join("..data")).unwrap();
        symlink("..data/p.rego", base.join("p.rego")).unwrap();
        let paths = [base.clone()];
        let before = print(&paths);
        symlink("..2", base.join("..tmp")).unwrap();
        fs::rename(base.join("..tmp"), base.join("..data")).unwrap();
        assert_ne!(before, print(&paths));
    }
}
