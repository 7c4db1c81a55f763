//! What a policy may call.

use super::*;

#[test]
fn s6_4_what_is_impure_or_unbounded_is_refused_with_its_place() {
    for call in [
        "http.send({\"url\": \"http://x\"})",
        "rand.intn(\"a\", 5)",
        "uuid.rfc4122(\"a\")",
        "opa.runtime()",
        "io.jwt.decode(input.t)",
        "numbers.range(1, input.n)",
        "strings.replace_n({\"a\": input.s}, input.s)",
        "bits.lsh(1, input.n)",
        "net.cidr_expand(input.c)",
        "walk(input)",
        "regex.replace(input.s, \"a\", \"b\")",
        "crypto.sha256(\"a\")",
        "no.such.function(1)",
        "nonsense(1)",
        "trace(\"x\")",
        "base64.encode(\"x\")",
        "data.b.f(1)",
    ] {
        let message = refusal(&format!("package a\n\nx := {call}"));
        let name = call.split('(').next().unwrap();
        assert!(message.starts_with("p/a.rego:3:"), "{message}");
        assert!(message.contains(&format!("`{name}`")), "{message}");
    }
    assert!(refusal("package a\nx if { print(1) }").contains("`print`"));
}

#[test]
fn s6_4_a_refused_call_hides_nowhere() {
    for body in [
        "x := [y | y := rand.intn(\"a\", 5)]",
        "x if { every y in input.l { rand.intn(\"a\", y) == 1 } }",
        "x if { not rand.intn(\"a\", 5) == 1 }",
        "x := 1 if { false } else := rand.intn(\"a\", 5)",
        "x := {\"a\": [{rand.intn(\"a\", 5)}]}",
        "x contains rand.intn(\"a\", 5)",
        "x[rand.intn(\"a\", 5)] := 1",
        "f(y) := rand.intn(y, 5)\nx := f(\"a\")",
        "x := input[rand.intn(\"a\", 5)]",
        "x := y if { y := input.z with input.z as rand.intn(\"a\", 5) }",
        "x if { some y in [rand.intn(\"a\", 5)]; y }",
        "default f(_) := 1\nf(y) := 2 if rand.intn(y, 5) > 1\nx := f(1)",
        "x := input.a + (1 * rand.intn(\"a\", 5))",
        "x if { rand.intn(\"a\", 5) in {1} }",
        "unused := rand.intn(\"a\", 5)",
    ] {
        assert!(refusal(&format!("package a\n{body}")).contains("rand.intn"), "{body}");
    }
}

#[test]
fn s6_4_a_function_may_not_be_put_in_anothers_place() {
    let message =
        refusal("package a\nx := y if { y := count(input.z) with count as numbers.range }");
    assert!(message.contains("numbers.range"), "{message}");
    // `with` on values is what it is for.
    let policy = "package a\nf(y) := input.z + y\nx := w if { w := f(1) with input.z as 2 }";
    assert_eq!(eval(policy, "{}").unwrap().unwrap(), 3);
}

#[test]
fn s6_4_patterns_and_formats_are_literals() {
    for body in [
        "x := regex.match(input.p, \"a\")",
        "x := glob.match(input.p, [], \"a\")",
        "x := sprintf(input.p, [1])",
        "x := sprintf(\"%999999999d\", [1])",
        "x := time.parse_ns(input.p, \"2020\")",
    ] {
        assert!(refusal(&format!("package a\n{body}")).contains("literal"), "{body}");
    }
    let policy = "package a\nx := [regex.match(`^a+$`, input.s), sprintf(\"%s-%d\", [input.s, 7])]";
    assert_eq!(eval(policy, r#"{"s":"aa"}"#).unwrap().unwrap().to_string(), "[true,\"aa-7\"]");
}

#[test]
fn s6_4_the_clock_is_read_only_where_the_entry_point_says_so() {
    let bundle = bundle(
        "package a\nx := lib(1) > 0\nlib(y) := time.now_ns() + y\nz := 1 if { input.w }\nindirect := x",
    )
    .unwrap();
    assert!(bundle.rule("data.a.x", false).unwrap_err().message.contains("time.now_ns"));
    assert!(bundle.rule("data.a.indirect", false).is_err());
    bundle.rule("data.a.x", true).unwrap();
    bundle.rule("data.a.z", false).unwrap();
}

#[test]
fn s6_4_own_functions_are_called_across_packages_and_aliases() {
    let folder = Folder::new(&[
        (
            "a.rego",
            "package a\nimport data.lib.roles as r\nimport data.lib\nx := [r.f(1), data.lib.roles.f(2), lib.roles.f(3), g(4)]\ng(y) := y",
        ),
        ("lib.rego", "package lib.roles\nf(y) := y * 10"),
    ]);
    let rule = folder.load().unwrap().rule("data.a.x", false).unwrap();
    assert_eq!(rule.eval("{}", LIMITS).unwrap().unwrap().to_string(), "[10,20,30,4]");
    let message = refusal("package a\nf(y) := y\nx := f(1, 2)");
    assert!(message.contains("takes 1 arguments, 2 are given"), "{message}");
}

#[test]
fn r01_in_as_a_value_is_refused_because_opa_computes_it_otherwise() {
    for body in ["x := \"a\" in input.l", "x if (\"a\" in input.l) == false", "x := [1 in input.l]"]
    {
        assert!(refusal(&format!("package a\n{body}")).contains("`in`"), "{body}");
    }
    for body in [
        "x if not startswith(input.n, \"a\")",
        "x if not input.n == 1",
        "x if not \"a\" in input.l",
        "x if not \"a\" in [y | y := lower(input.l[_])]",
        "x if { some y in input.l; not y == \"a\" }",
    ] {
        bundle(&format!("package a\n{body}")).unwrap();
    }
}
