//! The architecture as rules over the source. Each rule is a pure function over a [`Tree`]; the
//! first test holds the real one to it, the others plant a fault and see it found.
#![expect(clippy::string_slice, reason = "blanked code is ASCII; a wrong cut fails the test")]

mod faults;
mod planted;
mod rules;
mod source;

use source::Tree;

#[test]
fn s10_3_the_source_keeps_every_rule() {
    let tree = Tree::read(&crate::harness::root().join("src"));
    assert!(tree.files().len() > 20, "the source was not found");
    let faults: Vec<String> = rules::ALL.iter().flat_map(|rule| rule(&tree)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
