use serde_json::{Value, json};

use super::{configs, context, get, name, one, table};
use crate::model::{Code, Request};
use crate::route::{PathConfig, Table};

fn trusting() -> Table {
    let path = PathConfig { trust_envoy_normalisation: true };
    Table::new(&configs(json!([{"name": "one", "access": "public"}])), &path).unwrap()
}

fn path(table: &Table, target: &str) -> Result<String, Code> {
    let context = context(table, &get(target)).map_err(|refusal| refusal.code)?;
    Ok(context["path"].as_str().unwrap().to_owned())
}

#[test]
fn s1_1_every_row_of_the_table_of_spellings_holds() {
    let tables = [one(json!({})), trusting()];
    let document = include_str!("../../../envoy/README.md");
    // The other tables of the document have fewer columns.
    let row = |line: &&str| line.starts_with("| `") && line.matches('|').count() == 6;
    let rows = document.lines().filter(row);
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let target = cells[1].trim_matches('`');
        for (table, cell) in tables.iter().zip(&cells[2..4]) {
            let expected = match *cell {
                "refused" => Err(Code::PathNotCanonical),
                path => Ok(path.trim_matches('`').to_owned()),
            };
            assert_eq!(path(table, target), expected, "{row}");
        }
        count += 1;
    }
    assert!(count >= 45, "{count} rows");
}

#[test]
fn s1_1_trusting_agrees_with_what_a_real_envoy_forwards() {
    let (strict, trusting) = (one(json!({})), trusting());
    let mut decided = 0;
    for row in include_str!("envoy_paths.txt").lines().filter(|row| row.starts_with('/')) {
        let (raw, forwarded) = row.split_once(' ').unwrap();
        let ours = path(&trusting, raw);
        assert_eq!(ours, path(&trusting, forwarded), "{row}");
        assert_eq!(ours, path(&strict, forwarded), "{row}");
        decided += usize::from(ours.is_ok());
    }
    assert!(decided > 100, "{decided} decided");
}

#[test]
fn p02_dot_segments_never_reach_the_public_rule() {
    let routes = json!([
        {"name": "public", "match": {"path_prefix": "/public"}, "access": "public"},
        {"name": "admin", "match": {"path_prefix": "/admin"}, "access": "authenticated"},
    ]);
    let strict = table(routes.clone());
    let path = PathConfig { trust_envoy_normalisation: true };
    let trusting = Table::new(&configs(routes), &path).unwrap();
    for target in [
        "/public/../admin/keys",
        "/public/%2e%2e/admin/keys",
        "/public/%2E./admin/keys",
        "/public/..;/admin",
        "/public//../admin",
        "/../../admin",
    ] {
        assert_eq!(name(&strict, &get(target)), Err(Code::PathNotCanonical), "{target}");
        // Envoy resolves dots before it merges slashes, so one of them stays below /public.
        if target != "/public//../admin" {
            assert_ne!(name(&trusting, &get(target)), Ok("public".to_owned()), "{target}");
        }
    }
    assert_eq!(name(&trusting, &get("/public/../admin/keys")), Ok("admin".to_owned()));
}

#[test]
fn p04_odd_targets_are_refused_without_panic() {
    let table = one(json!({}));
    for target in
        ["/user/profile#a", "user/profile", "http://api.test/user/profile", "*", "", "?", "#", "%"]
    {
        assert_eq!(name(&table, &get(target)), Err(Code::PathNotCanonical), "{target}");
    }
}

#[test]
fn s1_1_raw_bytes_are_refused_and_o04_cut_nothing() {
    let table = one(json!({}));
    for length in [63, 127, 199, 255] {
        let long = "a".repeat(length);
        let raw = format!("/{long}€");
        assert_eq!(name(&table, &get(&raw)), Err(Code::PathNotCanonical));
        let decoded = context(&table, &get(&format!("/{long}%E2%82%AC"))).unwrap();
        assert_eq!(decoded["segments"], json!([format!("{long}€")]));
        let method = Request { method: format!("{long}€").into(), ..get("/") };
        assert_eq!(context(&table, &method).unwrap()["method"], format!("{long}€"));
        let host = Request { host: format!("{long}€").into(), ..get("/") };
        assert_eq!(name(&table, &host), Err(Code::HostInvalid));
    }
    for byte in (0..=0x20).chain(0x7f..=0xff) {
        let request = Request { target: vec![b'/', b'a', byte].into(), ..get("/") };
        assert_eq!(name(&table, &request), Err(Code::PathNotCanonical), "{byte:#x}");
        let request = Request { target: vec![b'/', b'a', b'?', byte].into(), ..get("/") };
        assert_eq!(name(&table, &request), Err(Code::PathNotCanonical), "{byte:#x} in the query");
    }
}

#[test]
fn s1_1_a_route_accepts_one_refused_spelling_by_name() {
    let route = |spellings: Value| {
        let files = json!({
            "name": "files", "match": {"path": "/files/{id}/{**rest}"}, "access": "public",
            "resource": "{id}", "accept_spellings": spellings,
        });
        table(json!([
            {"name": "locked", "match": {"path": "/files/locked"}, "access": "authenticated"},
            files,
        ]))
    };
    let (none, slash) = (route(json!([])), route(json!(["encoded_slash"])));
    let semicolon = route(json!(["semicolon"]));
    let (with_slash, with_semicolon) = (get("/files/a%2Fb/c%2fd/e"), get("/files/a;v=1/b"));
    let refused = Err(Code::PathNotCanonical);
    assert_eq!(name(&none, &with_slash), refused);
    assert_eq!(name(&none, &with_semicolon), refused);
    assert_eq!(name(&slash, &with_semicolon), refused);
    assert_eq!(name(&semicolon, &with_slash), refused);

    let facts = slash.find(&with_slash).unwrap().facts(None).unwrap();
    assert_eq!(facts.resource.as_deref(), Some("a/b"));
    let context = context(&slash, &with_slash).unwrap();
    assert_eq!(context["path"], "/files/a%2Fb/c%2Fd/e");
    assert_eq!(context["segments"], json!(["files", "a/b", "c/d", "e"]));

    assert_eq!(name(&semicolon, &with_semicolon).unwrap(), "files");
    // Another reader takes it for the locked file, whose route accepts no semicolon.
    assert_eq!(name(&semicolon, &get("/files/locked;x")), refused);
    for target in ["/files/a%2F..%2Fb", "/files/%2Fa", "/files/a%2F", "/files/a%2F%2Fb"] {
        assert_eq!(name(&slash, &get(target)), refused, "{target}");
    }
    for target in ["/files/..;a", "/files/;a", "/files/%2e;a"] {
        assert_eq!(name(&semicolon, &get(target)), refused, "{target}");
    }
}

#[test]
fn s1_2_a_host_has_one_spelling() {
    let table = one(json!({}));
    let host = |host: &str| {
        let request = Request { host: host.as_bytes().to_vec().into(), ..get("/") };
        context(&table, &request).map(|c| c["host"].clone()).map_err(|refusal| refusal.code)
    };
    for spelling in ["api.test", "API.Test", "api.test:8443", "api.test.", "aPi.test.:1"] {
        assert_eq!(host(spelling), Ok(json!("api.test")), "{spelling}");
    }
    assert_eq!(host("[2001:DB8::1]:443"), Ok(json!("[2001:db8::1]")));
    assert_eq!(host("127.0.0.1:80"), Ok(json!("127.0.0.1")));
    for broken in [
        "",
        ".",
        ":",
        "a..b",
        "a.test..",
        "a.test:",
        "a.test:x",
        "a.test:99999",
        "a.test:+1",
        "a,b",
        "a b",
        "user@a.test",
        "a/b",
        "[::1",
        "[x]",
        "a.test:1:2",
        "a\u{e9}",
        "a\0",
    ] {
        assert_eq!(host(broken), Err(Code::HostInvalid), "{broken:?}");
    }
}

#[test]
fn s1_2_two_hosts_are_refused() {
    let table = one(json!({}));
    let same = super::with_headers("/", &[(":authority", "API.test:443")]);
    assert!(table.find(&same).is_ok());
    for name in [":authority", "host"] {
        let other = super::with_headers("/", &[(name, "api.test"), (name, "evil.test")]);
        assert_eq!(super::name(&table, &other), Err(Code::HostInvalid), "{name}");
    }
}
