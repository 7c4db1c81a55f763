//! Each `bad/NAME.yaml` and `cross/NAME.yaml` is refused with exactly the words of its `.txt`.
//! `UPDATE_CORPUS=1 cargo test corpus` writes the words; read them before you commit them.

use std::path::Path;

use super::sample;
use crate::config::report::Report;
use crate::config::{Environment, load_with};

/// Holds every file of `folder` against its words.
fn compare(folder: &str, least: usize, read: impl Fn(&Path) -> Option<Report>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/tests").join(folder);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    files.sort();
    assert!(files.len() >= least, "the corpus is missing");
    let mut wrong = Vec::new();
    for file in files {
        let said = read(&file)
            .map_or("accepted".to_owned(), |report| sample::lines(&report, &folder).join("\n"));
        let words = file.with_extension("txt");
        if option_env!("UPDATE_CORPUS").is_some() {
            std::fs::write(&words, format!("{said}\n")).unwrap();
        }
        let expected = std::fs::read_to_string(&words).unwrap_or_default();
        if expected.trim_end() != said {
            wrong.push(format!("{}\nexpected:\n{expected}\nsaid:\n{said}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_bad_file_is_refused_in_the_expected_words() {
    compare("bad", 40, |file| sample::load(file, &[]).err());
}

#[test]
fn sections_that_do_not_go_together_are_refused_in_the_expected_words() {
    compare("cross", 3, |file| load_with(file, &Environment::default(), |_, _| Vec::new()).err());
}
