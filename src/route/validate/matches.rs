//! What can be wrong with `match`.

use std::collections::HashSet;

use super::super::config::MatchConfig;
use super::super::host::{is_bracketed, is_name};
use super::{Report, is_token, unreadable};

pub(super) fn problems(matches: &MatchConfig, report: &mut Report<'_>) {
    hosts(matches, report);
    methods(matches, report);
    headers(matches, report);
    for name in matches.context_extensions.keys().filter(|name| name.is_empty()) {
        let message = "the name of a context extension is empty";
        report.note(&format!("match/context_extensions/{name}"), message, "name it");
    }
}

fn hosts(matches: &MatchConfig, report: &mut Report<'_>) {
    let Some(hosts) = &matches.hosts else { return };
    if hosts.is_empty() {
        let message = "no host is listed, so the route can never match";
        report.note("match/hosts", message, "list hosts, or leave `hosts` out for any host");
    }
    for (at, host) in hosts.iter().enumerate() {
        let name = host.strip_prefix("*.").unwrap_or(host);
        if !(is_name(name) || is_bracketed(host)) {
            let message = format!("no request has the host `{host}`");
            let fix = "write a name such as `api.example.test` or `*.example.test`, \
                       without scheme, port and final dot";
            report.note(&format!("match/hosts/{at}"), message, fix);
        }
    }
}

fn methods(matches: &MatchConfig, report: &mut Report<'_>) {
    let Some(methods) = &matches.methods else { return };
    if methods.is_empty() {
        let message = "no method is listed, so the route can never match";
        report.note("match/methods", message, "list methods, or leave `methods` out for any");
    }
    for (at, method) in methods.iter().enumerate() {
        if !is_token(method) || method.bytes().any(|b| b.is_ascii_lowercase()) {
            let message = format!("no request has the method `{method}`");
            let fix = "write it in upper case, such as `GET`; methods are compared exactly";
            report.note(&format!("match/methods/{at}"), message, fix);
        }
    }
}

fn headers(matches: &MatchConfig, report: &mut Report<'_>) {
    let mut seen = HashSet::new();
    for (name, value) in &matches.headers {
        let place = format!("match/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        if !is_token(name) {
            let message = format!("`{name}` is no header name");
            report.note(&place, message, "write a name such as `x-kind`");
        } else if let Some(why) = unreadable(name) {
            let message = format!("a route is not chosen by `{name}`: {why}");
            report.note(&place, message, "match by host, path, method or context extension");
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            let message = format!("the header `{name}` is there in two spellings");
            report.note(&place, message, "write it once");
        }
        let sent = value.trim() == value && !value.chars().any(char::is_control);
        if !sent {
            let message = format!("no request has the value `{}`", value.escape_debug());
            report.note(&place, message, "write it without surrounding spaces and controls");
        }
    }
}
