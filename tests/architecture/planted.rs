//! Each rule sees the fault it is for, and leaves its neighbour alone.

use super::rules;
use super::source::Tree;

fn tree(path: &str, text: &str) -> Tree {
    let others = ["model/mod.rs", "route/mod.rs", "policy/mod.rs", "serve/mod.rs", "config/mod.rs"];
    let files = others.iter().map(|path| ((*path).to_owned(), "//! room\n".to_owned()));
    let planted = [(path.to_owned(), text.to_owned())];
    Tree::of(files.filter(|(other, _)| other != path).chain(planted))
}

/// Asserts that the rule finds a fault in exactly those of the texts that are marked.
fn each(rule: fn(&Tree) -> Vec<String>, path: &str, texts: &[(&str, bool)]) {
    for (text, fault) in texts {
        let found = rule(&tree(path, text));
        assert_eq!(!found.is_empty(), *fault, "{path}: {text:?}: {found:?}");
    }
}

#[test]
fn arrows_by_every_kind_of_path() {
    let texts = [
        ("use crate::policy::Input;", true),
        ("use crate::{model::Input, policy::Port};", true),
        ("use crate::{\n    model::{Input, Digest},\n    policy,\n};", true),
        ("fn f() { let x = crate::policy::f(); }", true),
        ("use super::super::policy::Port;", true),
        ("type A = portcullis::policy::B;", true),
        ("use crate::serve::door;", true),
        ("use crate::model::policy;", false),
        ("use super::policy::Port;", false),
        ("// use crate::policy::Input;", false),
        ("/* crate::policy */ const A: &str = \"crate::policy::B\";", false),
        ("#[cfg(test)]\nmod tests { use crate::policy::Input; }", false),
        ("#[cfg(test)]\nuse crate::policy::Input;\nuse crate::serve::A;", true),
        ("use crate::route::config::Route;", false),
    ];
    each(rules::arrows, "route/matcher.rs", &texts);
    each(rules::arrows, "route/mod.rs", &[("use super::policy::Port;", true)]);
    each(rules::arrows, "model/mod.rs", &[("use crate::route::Matcher;", true)]);
    each(rules::arrows, "app.rs", &[("use crate::{route, policy};", false)]);
}

#[test]
fn sizes_of_one_file_and_of_all() {
    let line = "// line\n";
    each(rules::sizes, "route/big.rs", &[(&line.repeat(401), true), (&line.repeat(400), false)]);
    let many = (0..3).map(|i| (format!("route/{i}.rs"), line.repeat(200)));
    assert!(!rules::sizes(&Tree::of(many)).is_empty());
}

#[test]
fn panics_outside_tests() {
    let texts = [
        ("fn f() { g().unwrap(); }", true),
        ("fn f() { g().expect(\"x\"); }", true),
        ("fn f() { panic!(\"x\") }", true),
        ("fn f() { std::process::abort() }", true),
        ("fn f() { assert_eq!(1, 2) }", true),
        ("fn f() { debug_assert!(true) }", false),
        ("#[expect(lint)] fn f() { g().unwrap_or_default(); }", false),
        ("const A: &str = r#\"a \" .unwrap() \"#; // panic!", false),
        ("const A: char = '\"'; fn f() { g().unwrap() } const B: char = '\"';", true),
        ("#[cfg(test)]\nmod tests {\n    fn f() { g().unwrap(); }\n}\n", false),
        ("const A: NonZeroU32 = NonZeroU32::new(64).unwrap();", false),
        ("const fn f() -> u8 { g().unwrap() }", true),
        ("#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn f() { g().unwrap() }", true),
    ];
    each(rules::no_panics, "route/a.rs", &texts);
    let with = |declared: &str| {
        Tree::of([
            ("route/mod.rs".to_owned(), declared.to_owned()),
            ("route/a.rs".to_owned(), "#[cfg(test)]\n#[path = \"b.rs\"]\nmod tests;".to_owned()),
            ("route/b.rs".to_owned(), "fn f() { g().unwrap() }".to_owned()),
            ("route/tests.rs".to_owned(), "mod deep;\n".to_owned()),
            ("route/tests/deep.rs".to_owned(), "fn f() { g().unwrap() }".to_owned()),
        ])
    };
    assert_eq!(rules::no_panics(&with("#[cfg(test)]\nmod tests;")), [""; 0]);
    assert_eq!(rules::no_panics(&with("mod tests;")).len(), 1);
}

#[test]
fn s9_3_wall_time_is_read_in_the_clock_alone() {
    let texts = [
        ("use std::time::SystemTime;", true),
        ("let t = chrono::Utc::now();", true),
        ("use std::time::Instant;", false),
    ];
    each(rules::one_clock, "route/a.rs", &texts);
    each(rules::one_clock, "clock.rs", &[("use std::time::SystemTime;", false)]);
}

#[test]
fn crates_outside_their_rooms() {
    let texts = [
        ("use tonic::Status;", true),
        ("let e = regorus::Engine::new();", true),
        ("use redis::Client;", true),
        ("use my_redis::Client;", false),
    ];
    each(rules::crates_in_their_rooms, "policy/a.rs", &texts);
    each(rules::crates_in_their_rooms, "serve/a.rs", &[("use tonic::Status;", false)]);
}

#[test]
fn the_environment_outside_configuration() {
    let texts = [("std::env::var(\"A\")", true), ("env!(\"CARGO_PKG_VERSION\")", false)];
    each(rules::one_reader_of_environment, "serve/a.rs", &texts);
    each(rules::one_reader_of_environment, "config/a.rs", &[("std::env::var(\"A\")", false)]);
}

#[test]
fn customers_anywhere() {
    let texts = [
        ("// as CWMS does", true),
        ("#[cfg(test)]\nmod tests { const A: &str = \"x-cwms-auth-context\"; }", true),
        ("// an office", false),
    ];
    each(rules::no_customer, "route/a.rs", &texts);
}
