mod config;
mod credentials;
mod input;
mod matching;
mod parameters;
mod strip;
mod targets;

use serde_json::{Value, json};

use super::{PathConfig, RouteConfig, Table};
use crate::model::{Body, Code, Headers, Problem, Refusal, Request};

/// A request for `target` on `api.test`.
fn get(target: &str) -> Request {
    Request {
        method: "GET".into(),
        target: target.as_bytes().to_vec().into(),
        host: b"api.test".to_vec().into(),
        scheme: "https".into(),
        ..Request::default()
    }
}

fn with_headers(target: &str, headers: &[(&str, &str)]) -> Request {
    let pairs = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    Request { headers: Headers::from_pairs(pairs), ..get(target) }
}

fn post(target: &str, body: &str) -> Request {
    let body = Body { bytes: body.to_owned().into(), ..Body::default() };
    let request = with_headers(target, &[("content-type", "application/json")]);
    Request { method: "POST".into(), body, ..request }
}

fn configs(routes: Value) -> Vec<RouteConfig> {
    serde_json::from_value(routes).unwrap()
}

fn table(routes: Value) -> Table {
    Table::new(&configs(routes), &PathConfig::default()).unwrap()
}

fn members(object: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(object).unwrap()
}

/// A table of one route that is for everything, with further members.
fn one(more: impl Into<Value>) -> Table {
    let mut route = json!({"name": "one", "access": "public"});
    route.as_object_mut().unwrap().extend(members(more.into()));
    table(json!([route]))
}

fn problems(routes: Value) -> Vec<Problem> {
    super::problems(&configs(routes))
}

/// The matched route's name, or the refusal's code.
fn name(table: &Table, request: &Request) -> Result<String, Code> {
    table.find(request).map(|m| m.route().name.to_string()).map_err(|refusal| refusal.code)
}

fn context(table: &Table, request: &Request) -> Result<Value, Refusal> {
    let facts = table.find(request)?.facts(None)?;
    Ok(serde_json::from_str(&facts.context).unwrap())
}

/// The code with which the facts are refused.
fn refused(table: &Table, request: &Request) -> Code {
    context(table, request).unwrap_err().code
}
