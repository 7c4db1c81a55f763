//! Rust source as the rules read it: comments and literals blanked out, test code told apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to `src`, with `/`.
    pub(super) path: String,
    /// As it stands.
    pub(super) text: String,
    /// Comments and literals blanked, and items under `#[cfg(test)]` too; lines keep their numbers.
    pub(super) code: String,
    /// Whether it is only compiled for tests.
    pub(super) test: bool,
}

impl File {
    /// The top-level module it belongs to; the crate's own files are `lib`, `main`, ….
    pub(super) fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// How many modules deep it lies: 0 for the crate's root.
    pub(super) fn depth(&self) -> usize {
        let parts: Vec<_> = self.path.split('/').collect();
        let last = *parts.last().unwrap_or(&"");
        let own = usize::from(!["mod.rs", "lib.rs", "main.rs"].contains(&last));
        parts.len() - 1 + own
    }

    /// Number of the line that holds byte `at`.
    pub(super) fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }
}

/// All files.
#[derive(Debug)]
pub(super) struct Tree(Vec<File>);

impl Tree {
    pub(super) fn read(src: &Path) -> Self {
        let mut found = Vec::new();
        walk(src, src, &mut found);
        found.sort();
        Self::of(found)
    }

    pub(super) fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut files: Vec<File> = files
            .into_iter()
            .map(|(path, text)| {
                let blank = blank(&text);
                File { code: without_tests(&blank), path, text, test: false }
            })
            .collect();
        let tests: BTreeSet<String> = files.iter().flat_map(test_modules).collect();
        for file in &mut files {
            let module = file.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
            file.test = tests.iter().any(|t| module == t || module.starts_with(&format!("{t}/")));
        }
        Self(files)
    }

    pub(super) fn files(&self) -> &[File] {
        &self.0
    }

    /// Files that end up in the binary.
    pub(super) fn shipped(&self) -> impl Iterator<Item = &File> {
        self.0.iter().filter(|file| !file.test)
    }
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Module paths (`room/tests`) that the file declares under `#[cfg(test)] mod name;`.
fn test_modules(file: &File) -> Vec<String> {
    let code = blank(&file.text);
    let folder = match file.path.rsplit_once('/') {
        Some((folder, "mod.rs")) => format!("{folder}/"),
        _ if file.depth() == 0 => String::new(),
        _ => format!("{}/", file.path.trim_end_matches(".rs")),
    };
    let beside = file.path.rsplit_once('/').map_or(String::new(), |(dir, _)| format!("{dir}/"));
    let mut modules = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let mut rest = code[at + attribute.len()..].trim_start();
        if rest.starts_with("#[path") {
            // The literal is blanked in the code; lines keep their numbers.
            let line = code[..at].matches('\n').count() + 1;
            let name = file.text.lines().nth(line).and_then(|line| line.split('"').nth(1));
            modules.extend(name.map(|name| format!("{beside}{}", name.trim_end_matches(".rs"))));
            rest = "";
        }
        let rest = ["pub(crate) ", "pub(super) "]
            .iter()
            .find_map(|visible| rest.strip_prefix(visible))
            .unwrap_or(rest);
        if let Some(name) = rest.strip_prefix("mod ").and_then(|r| r.split([';', ' ']).next()) {
            modules.push(format!("{folder}{name}"));
        }
    }
    modules
}

/// The code without the items that `#[cfg(test)]` stands before.
fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    while let Some(at) = kept.find("#[cfg(test)]") {
        let rest = &kept[at..];
        let brace = rest.find('{').unwrap_or(rest.len());
        let semicolon = rest.find(';').map_or(rest.len(), |end| end + 1);
        let end = if semicolon < brace { semicolon } else { closing(rest, brace) };
        let blanked = spaces(&rest[..end]);
        kept.replace_range(at..at + end, &blanked);
    }
    kept
}

/// One past the brace that closes the one at `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return open + at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn spaces(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// The text with comments, strings and characters blanked; ASCII outside of them is kept.
pub(super) fn blank(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars().enumerate().all(|(i, c)| bytes.get(at + i) == Some(&c))
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = if starts(at, "//") {
            (at..bytes.len()).find(|&i| bytes[i] == '\n').unwrap_or(bytes.len())
        } else if starts(at, "/*") {
            (at + 2..bytes.len()).find(|&i| starts(i, "*/")).map_or(bytes.len(), |i| i + 2)
        } else if let Some(hashes) = raw_string(&bytes, at) {
            let close = format!("\"{}", "#".repeat(hashes));
            let from = at + 2 + hashes;
            (from..bytes.len()).find(|&i| starts(i, &close)).map_or(bytes.len(), |i| i + 1 + hashes)
        } else if bytes[at] == '"' {
            quoted(&bytes, at, '"')
        } else if bytes[at] == '\'' && (starts(at + 1, "\\") || bytes.get(at + 2) == Some(&'\'')) {
            quoted(&bytes, at, '\'')
        } else {
            at
        };
        if end == at {
            out.push(if bytes[at].is_ascii() { bytes[at] } else { ' ' });
            at += 1;
        } else {
            let piece: String = bytes[at..end].iter().collect();
            out.push_str(&spaces(&piece));
            at = end;
        }
    }
    out
}

/// The number of `#` of a raw string that begins here.
fn raw_string(bytes: &[char], at: usize) -> Option<usize> {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let before = at.checked_sub(1).and_then(|i| bytes.get(i));
    if bytes[at] != 'r' || before.is_some_and(|c| word(c) && *c != 'b') {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|c| **c == '#').count();
    (bytes.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

/// One past the quote that ends what begins at `at`.
fn quoted(bytes: &[char], at: usize, quote: char) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == '\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}
