//! Reading policies and data.

use super::*;

#[test]
fn s6_policies_and_data_are_loaded_whole_with_a_revision_of_their_contents() {
    let folder = Folder::new(&[
        ("a.rego", "package a\nx := [data.root, data.sub.n, data.sub.deep.m]"),
        ("a_test.rego", "package a_test\nnonsense ("),
        ("root.json", r#"{"root": 1}"#),
        ("sub/data.json", r#"{"n": 12345678901234567890123}"#),
        ("sub/deep/other.json", r#"{"m": 3}"#),
        (".hidden/data.json", "nonsense"),
        ("README.md", "nonsense"),
    ]);
    let bundle = folder.load().unwrap();
    let value = bundle.rule("data.a.x", false).unwrap().eval("{}", LIMITS).unwrap().unwrap();
    assert_eq!(value.to_string(), "[1,12345678901234567890123,3]");
    assert_eq!(bundle.revision().len(), 16);
    assert_eq!(folder.load().unwrap().revision(), bundle.revision());
    folder.write("sub/deep/other.json", r#"{"m": 4}"#);
    assert_ne!(folder.load().unwrap().revision(), bundle.revision());
}

#[test]
fn s6_every_broken_file_is_named_with_its_line() {
    let folder = Folder::new(&[
        ("a.rego", "package a\n\nx := ("),
        ("b.rego", "package b\nx := 1 if"),
        ("c/data.json", "{"),
        ("d/data.json", "[]"),
    ]);
    let problems = folder.load().unwrap_err();
    let text = format!("{problems:?}");
    assert_eq!(problems.len(), 4, "{text}");
    for place in ["p/a.rego:3", "p/b.rego:2", "p/c/data.json", "p/d/data.json"] {
        assert!(text.contains(place), "{place} not in {text}");
    }
}

#[test]
fn s6_data_that_contradicts_itself_or_is_missing_is_refused() {
    let folder =
        Folder::new(&[("a.rego", "package a"), ("a.json", "{\"n\":1}"), ("b.json", "{\"n\":2}")]);
    assert_eq!(folder.load().unwrap_err().len(), 1);
    let paths = [PathBuf::from("missing"), PathBuf::from("p"), PathBuf::from("gone.rego")];
    let problems = Bundle::load(&paths, &folder.0).unwrap_err();
    let pointers: Vec<_> = problems.iter().map(|p| p.pointer.as_str()).collect();
    assert_eq!(pointers, ["/paths/0", "/paths/2"]);
}

#[test]
fn r01_a_missing_package_or_rule_is_found_at_load() {
    let bundle =
        bundle("package acme.authz\nallow if input.x\nf(y) := y\nout[input.a][input.b] := 1")
            .unwrap();
    bundle.rule("data.acme.authz.allow", false).unwrap();
    bundle.rule("data.acme.authz.out", false).unwrap();
    for path in [
        "data.acme.authz.alow",
        "data.acme.auth.allow",
        "data.acme.authz",
        "acme.authz.allow",
        "",
        "data.acme.authz.f",
    ] {
        let problem = bundle.rule(path, false).unwrap_err();
        assert!(problem.message.contains(path), "{problem:?}");
    }
    assert!(bundle.rule("data.acme.authz.alow", false).unwrap_err().fix.contains("authz.allow"));
}

fn reasons(bundle: &Bundle, path: &str) -> Vec<String> {
    bundle.reasons([path]).iter().map(ToString::to_string).collect()
}

#[test]
fn s3_5_literal_reasons_are_found_at_load() {
    let bundle = bundle(
        "package a\nx := {\"allow\": false, \"reason\": reason, \"n\": data.a.y}\nreason := \"no_role\" if input.y\n\
         else := \"other_office\"\ny := [{\"reason\": \"too_late\"}, \"No Reason\"]\nz := \"not_reached\"",
    )
    .unwrap();
    let mut found = reasons(&bundle, "data.a.x");
    assert_eq!(found[..3], ["no_role", "other_office", "too_late"]);
    found.retain(|text| !["allow", "reason", "n", "y"].contains(&text.as_str()));
    assert_eq!(found, ["no_role", "other_office", "too_late"]);
}

#[test]
fn s3_5_reasons_that_a_policy_computes_are_found_at_load() {
    let bundle = bundle(
        "package a\nx := {\"allow\": true, \"reason\": grant[0]}\ngrant := claim_of(input.role)\n\
         claim_of(\"Some One\") := [\"some_one\", 1]\nclaim_of(\"other\") := bad(\"too_late\")\n\
         bad(why) := [why, 2]\ny := \"not_reached\"",
    )
    .unwrap();
    assert_eq!(reasons(&bundle, "data.a.x"), ["allow", "other", "reason", "some_one", "too_late"]);
}

#[test]
fn s3_5_reasons_are_bounded() {
    let many: Vec<String> = (0..2000).map(|n| format!("\"r_{n}\"")).collect();
    let many = many.join(",\n");
    let policy =
        format!("package a\nx := {{\"allow\": false, \"reason\": \"z\", \"l\": [{many}]}}");
    let found = reasons(&bundle(&policy).unwrap(), "data.a.x");
    assert_eq!((found.len(), found[0].as_str()), (512, "z"));
}
