//! What can be wrong with `attributes` and `body`.

use std::collections::HashMap;

use super::super::attributes::{CORE, names};
use super::super::body::Pointer;
use super::super::config::{Access, AttributeConfig, RouteConfig, Use};
use super::super::pattern::{Pattern, is_identifier};
use super::{Report, is_token, unreadable};

pub(super) fn problems(config: &RouteConfig, pattern: &Pattern, report: &mut Report<'_>) {
    let mut params: HashMap<&str, &str> = HashMap::new();
    for (name, attribute) in &config.attributes {
        let place = format!("attributes/{}", name.replace('~', "~0").replace('/', "~1"));
        self::name(name, &place, report);
        sources(attribute, &place, report);
        values(attribute, &place, report);
        path(attribute, pattern, &place, report);
        headers(attribute, &place, report);
        for param in names(attribute) {
            let place = format!("{place}/query");
            if param.is_empty() || param == "access_token" {
                let message = format!("`{param}` is no parameter that a policy may see");
                report.note(&place, message, "write the parameter's exact, decoded name");
            } else if let Some(other) = params.insert(param, name) {
                let message = format!("the parameter `{param}` is declared by `{other}` already");
                report.note(&place, message, "declare each parameter once");
            }
        }
        let is_claim = attribute.claim.is_some();
        if is_claim && config.access == Access::Public {
            let message = "a public route reads no credential, so it has no claims";
            report.note(&format!("{place}/claim"), message, "write `access: optional`");
        }
    }
    body(config, report);
}

fn name(name: &str, place: &str, report: &mut Report<'_>) {
    if CORE.contains(&name) {
        let message = format!("`context.{name}` is set by Portcullis itself");
        report.note(place, message, "choose another name for the attribute");
    } else if !is_identifier(name) || name.len() > 64 {
        let message = format!("`{name}` is no name for an attribute");
        report.note(place, message, "use letters, digits and `_`, not starting with a digit");
    }
}

fn sources(attribute: &AttributeConfig, place: &str, report: &mut Report<'_>) {
    let given = [
        ("path", attribute.path.is_some()),
        ("query", attribute.query.is_some()),
        ("header", attribute.header.is_some()),
        ("body", attribute.body.is_some()),
        ("claim", attribute.claim.is_some()),
        ("peer", attribute.peer.is_some()),
        ("extension", attribute.extension.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    match given.as_slice() {
        [_] | ["query", "body"] => {}
        [] => report.note(
            place,
            "the attribute has no source",
            "name one of path, query, header, body, claim, peer, extension",
        ),
        several => report.note(
            place,
            format!("the attribute has several sources: {}", several.join(", ")),
            "name one; only query and body may be given together",
        ),
    }
    // The path is as much the client's as the query is.
    let client = given.iter().find(|source| ["path", "query", "header", "body"].contains(source));
    if let Some(source) = client.filter(|_| attribute.purpose == Use::Vouches) {
        let message = format!("the client writes the {source}, so it vouches for nothing");
        let fix = "take evidence from claim, peer or extension, or write `use: selects`";
        report.note(&format!("{place}/use"), message, fix);
    }
}

fn values(attribute: &AttributeConfig, place: &str, report: &mut Report<'_>) {
    if attribute.query.is_some() && names(attribute).is_empty() {
        let message = "no parameter is listed";
        report.note(&format!("{place}/query"), message, "list at least one name");
    }
    if let Some(pointer) = attribute.body.as_ref().filter(|p| Pointer::parse(p).is_none()) {
        let message = format!("`{pointer}` is no JSON pointer");
        report.note(&format!("{place}/body"), message, "write it as in RFC 6901: `/office/id`");
    }
    if let Some(claim) = &attribute.claim
        && (claim.is_empty() || (claim.starts_with('/') && Pointer::parse(claim).is_none()))
    {
        let message = format!("`{claim}` names no claim");
        report.note(&format!("{place}/claim"), message, "write `office` or `/realm/roles`");
    }
    if attribute.extension.as_ref().is_some_and(String::is_empty) {
        let message = "the name of the context extension is empty";
        report.note(&format!("{place}/extension"), message, "name it");
    }
    let has_one_value =
        attribute.path.is_some() || attribute.peer.is_some() || attribute.extension.is_some();
    if attribute.list && has_one_value {
        let message = "path variables, peers and extensions have one value";
        report.note(&format!("{place}/list"), message, "remove `list`");
    }
    if attribute.kind.is_some() && (attribute.claim.is_some() || attribute.peer.is_some()) {
        let message = "the value of a claim or a peer is what it is";
        report.note(&format!("{place}/type"), message, "remove `type`");
    }
}

fn path(attribute: &AttributeConfig, pattern: &Pattern, place: &str, report: &mut Report<'_>) {
    if let Some(var) = attribute.path.as_ref().filter(|var| pattern.var(var).is_none()) {
        let message = format!("the path has no variable `{var}`; it has {}", pattern.names());
        report.note(&format!("{place}/path"), message, "name a variable of the route's path");
    }
}

fn headers(attribute: &AttributeConfig, place: &str, report: &mut Report<'_>) {
    let Some(name) = &attribute.header else { return };
    let place = format!("{place}/header");
    if !is_token(name) {
        let message = format!("`{name}` is no header name");
        report.note(&place, message, "write a name such as `x-tenant`");
    } else if let Some(why) = unreadable(name) {
        let message = format!("a policy does not see `{name}`: {why}");
        report.note(&place, message, "choose another source");
    }
}

fn body(config: &RouteConfig, report: &mut Report<'_>) {
    let reads = config.attributes.values().any(|attribute| attribute.body.is_some());
    match (reads, config.body) {
        (true, None) => report.note(
            "body",
            "an attribute is read from the body, but not what happens without one",
            "write `body: required` or `body: optional`",
        ),
        (false, Some(_)) => report.note(
            "body",
            "no attribute is read from the body, so this has no effect",
            "remove it, or declare an attribute with `body: /pointer`",
        ),
        _ => {}
    }
    let carries = |method: &String| ["POST", "PUT", "PATCH"].contains(&method.as_str());
    let methods = config.matches.methods.as_ref();
    if reads && methods.is_some_and(|methods| !methods.iter().any(carries)) {
        let message = "no method of the route carries a body (POST, PUT, PATCH)";
        report.note("match/methods", message, "add one, or read no attribute from the body");
    }
}
