//! Every known fault of services of this kind has a test named after it that runs.

use std::collections::BTreeSet;

use super::source::{Tree, blank};

/// Known faults, by number: paths and headers, tokens, caches, the policy's answers, the network,
/// audit, operation.
const FAULTS: &str = "p01 p02 p04 p05 p07 p08 p09 p11 p13 t01 t02 t03 t05 t07 t09 t10 c01 c03 c05 \
                      c07 r01 r03 n01 n04 a01 a02 a03 a05 o01 o02 o04";

/// Faults that a test which runs is named after: `#[test] fn p01_…`, not ignored.
fn named(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_test, mut runs) = (false, true);
    let code: String = tree.files().iter().map(|file| blank(&file.text) + "\n").collect();
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            runs &= !line.starts_with("#[ignore");
            continue;
        }
        let name = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some((fault, _)) = name.and_then(|name| name.split_once('_'))
            && is_test
            && runs
        {
            found.insert(fault.to_owned());
        }
        (is_test, runs) = (false, true);
    }
    found
}

#[test]
fn s10_5_every_known_fault_has_a_test() {
    let folders = ["src", "tests"].map(|folder| crate::harness::root().join(folder));
    let found: BTreeSet<_> = folders.iter().flat_map(|folder| named(&Tree::read(folder))).collect();
    let missing: Vec<_> = FAULTS.split(' ').filter(|fault| !found.contains(*fault)).collect();
    assert!(missing.is_empty(), "without a test: {missing:?}");
}

#[test]
fn s10_3_a_test_that_does_not_run_is_none() {
    let names = |text: &str| {
        let tree = Tree::of([("a.rs".to_owned(), text.to_owned())]);
        named(&tree).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        names("#[test]\nfn p01_a() {}\n#[tokio::test]\n// why\nasync fn t01_b() {}"),
        ["p01", "t01"]
    );
    assert!(names("fn p01_a() {}").is_empty());
    assert!(names("#[test]\n#[ignore = \"later\"]\nfn p01_a() {}").is_empty());
    assert!(names("// #[test]\nfn p01_a() {}").is_empty());
    assert!(names("#[test]\nstruct S;\nfn p01_a() {}").is_empty());
}
