//! The rules. Each names file, line and what to do instead.

use super::source::{File, Tree};

type Rule = fn(&Tree) -> Vec<String>;

/// Every rule.
pub(super) const ALL: [Rule; 7] = [
    arrows,
    sizes,
    no_panics,
    one_clock,
    crates_in_their_rooms,
    one_reader_of_environment,
    no_customer,
];

const STAGES: [&str; 7] = ["route", "authn", "context", "relations", "policy", "respond", "audit"];
const CEILING: usize = 400;
const MEDIAN: usize = 150;

/// The rooms that `room` may use, besides itself; `None`: all.
fn may_use(room: &str) -> Option<&'static [&'static str]> {
    Some(match room {
        "clock" => &[],
        // For the values `Now` and `Expiry`; it reads no clock.
        "model" => &["clock"],
        "telemetry" => &["model", "clock"],
        "dependency" | "rego" => &["model", "clock", "telemetry"],
        "store" => &["model", "clock", "telemetry", "dependency"],
        stage if STAGES.contains(&stage) => {
            &["model", "clock", "telemetry", "dependency", "rego", "store"]
        }
        "check" => &[
            "model",
            "clock",
            "telemetry",
            "route",
            "authn",
            "context",
            "relations",
            "policy",
            "respond",
            "audit",
        ],
        // The gate audits what never becomes a Check: undecodable, shed, cancelled.
        "serve" => &["model", "clock", "telemetry", "check", "audit"],
        "cli" => &["app", "config", "model", "clock", "telemetry", "serve"],
        "main" => &["cli", "app"],
        _ => return None,
    })
}

/// The rooms that a file names, by whatever path: `crate::x`, `crate::{x, y}`, `portcullis::x`,
/// `super::super::x`.
fn named(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let up = "super::".repeat(file.depth());
    let roots = ["crate::", "portcullis::", up.as_str()];
    for root in roots.into_iter().filter(|root| !root.is_empty()) {
        for (at, _) in file.code.match_indices(root) {
            let before = file.code[..at].chars().next_back().unwrap_or(' ');
            let inside = before.is_alphanumeric() || before == '_' || before == ':';
            if !inside {
                let names = first_names(&file.code[at + root.len()..]);
                found.extend(names.into_iter().map(|name| (file.line(at), name)));
            }
        }
    }
    found
}

/// The first name of a path, or of each path of a group.
fn first_names(rest: &str) -> Vec<String> {
    let ident = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![ident(rest)] };
    let mut names = vec![ident(group)];
    let mut depth = 1;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(ident(&group[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Stages never import one another, and nothing points upward.
pub(super) fn arrows(tree: &Tree) -> Vec<String> {
    let rooms: Vec<&str> = tree.files().iter().map(File::room).collect();
    let mut faults = Vec::new();
    for file in tree.shipped() {
        let Some(allowed) = may_use(file.room()) else { continue };
        for (line, name) in named(file) {
            let is_room = rooms.contains(&name.as_str());
            if is_room && name != file.room() && !allowed.contains(&name.as_str()) {
                faults.push(format!("{}:{line}: {} may not use {name}", file.path, file.room()));
            }
        }
    }
    faults
}

/// Small files.
pub(super) fn sizes(tree: &Tree) -> Vec<String> {
    let lines = |file: &File| file.text.lines().count();
    let mut faults: Vec<String> = tree
        .files()
        .iter()
        .filter(|file| lines(file) > CEILING)
        .map(|file| format!("{}: {} lines; split it ({CEILING})", file.path, lines(file)))
        .collect();
    let mut all: Vec<usize> = tree.files().iter().map(lines).collect();
    all.sort_unstable();
    let median = all.get(all.len() / 2).copied().unwrap_or_default();
    if median > MEDIAN {
        faults.push(format!("the median file has {median} lines ({MEDIAN})"));
    }
    faults
}

/// A panic in the decision path would be an outage that a caller can cause.
pub(super) fn no_panics(tree: &Tree) -> Vec<String> {
    const WORDS: [&str; 12] = [
        ".unwrap()",
        ".expect(",
        ".unwrap_err()",
        ".expect_err(",
        "panic!",
        "todo!",
        "unimplemented!",
        "unreachable!",
        "assert!",
        "assert_eq!",
        "assert_ne!",
        "process::abort",
    ];
    // A constant's panic is the compiler's, not a Check's.
    let constant = |file: &File, fault: &str| {
        let line = fault.split(':').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
        let code = file.code.lines().nth(line - 1).unwrap_or_default().trim_start();
        code.strip_prefix("pub ").unwrap_or(code).starts_with("const ")
            && code.find(';') == Some(code.len() - 1)
    };
    let of = |file: &File| {
        let mut faults = words(file, &WORDS, "return a typed error");
        faults.retain(|fault| !constant(file, fault));
        faults
    };
    tree.shipped().flat_map(of).collect()
}

/// Only the clock reads wall time.
pub(super) fn one_clock(tree: &Tree) -> Vec<String> {
    const WORDS: [&str; 5] =
        ["SystemTime", "UNIX_EPOCH", "Utc::now", "Local::now", "OffsetDateTime::now"];
    let others = tree.shipped().filter(|file| file.path != "clock.rs");
    others.flat_map(|file| words(file, &WORDS, "take a clock::Now")).collect()
}

/// Some crates have one room.
pub(super) fn crates_in_their_rooms(tree: &Tree) -> Vec<String> {
    const HOMES: [(&str, &str); 6] = [
        ("tonic::", "serve"),
        ("tonic_health::", "serve"),
        ("tonic_reflection::", "serve"),
        ("envoy_types::", "serve"),
        ("redis::", "store"),
        ("regorus::", "rego"),
    ];
    let mut faults = Vec::new();
    for file in tree.shipped() {
        for (word, home) in HOMES.into_iter().filter(|(_, home)| *home != file.room()) {
            faults.extend(words(file, &[word], &format!("it stays in {home}")));
        }
    }
    faults
}

/// Only the configuration reads the environment.
pub(super) fn one_reader_of_environment(tree: &Tree) -> Vec<String> {
    const WORDS: [&str; 5] =
        ["env::var", "env::vars", "env::set_var", "env::remove_var", "option_env!"];
    let others = tree.shipped().filter(|file| file.room() != "config");
    others.flat_map(|file| words(file, &WORDS, "make it configuration")).collect()
}

/// The core knows no customer: not in code, comments or tests.
pub(super) fn no_customer(tree: &Tree) -> Vec<String> {
    const WORDS: [&str; 9] = [
        "cwms",
        "usace",
        "water-data",
        "water_data",
        "dam_operator",
        "water_manager",
        "embargo",
        "hec_employee",
        "corps of engineers",
    ];
    let mut faults = Vec::new();
    for file in tree.files() {
        for (number, line) in file.text.lines().enumerate() {
            let lower = line.to_lowercase();
            for word in WORDS.iter().filter(|word| lower.contains(**word)) {
                let number = number + 1;
                faults.push(format!("{}:{number}: {word}; use a neutral name", file.path));
            }
        }
    }
    faults
}

/// Where any of `words` stands in the code, not as the end of a longer name.
fn words(file: &File, words: &[&str], instead: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for word in words {
        for (at, _) in file.code.match_indices(word) {
            let before = file.code[..at].chars().next_back().unwrap_or(' ');
            let longer = word.starts_with(char::is_alphabetic)
                && (before.is_alphanumeric() || before == '_');
            if !longer {
                faults.push(format!("{}:{}: {word}: {instead}", file.path, file.line(at)));
            }
        }
    }
    faults
}
