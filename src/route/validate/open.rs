//! Routes that are open while the policy engine fails.

use std::time::Duration;

use super::super::config::RouteConfig;
use super::Report;
use crate::clock::Now;
use crate::model::{Moment, Problem};

/// Longest time ahead that a route may be open: who wants it longer decides it again.
const FURTHEST: Duration = Duration::from_hours(90 * 24);

pub(super) fn problems(config: &RouteConfig, report: &mut Report<'_>) {
    let Some(open) = &config.open_while_opa_fails else { return };
    if open.reason.trim().is_empty() {
        let fix = "say who accepted it, and why";
        report.note("open_while_opa_fails/reason", "no reason is given", fix);
    }
    if config.policy.is_none() {
        let message = "this route names no policy, so that it never asks OPA";
        report.note("open_while_opa_fails", message, "remove it, or name a `policy`");
    }
}

/// What is wrong with the dates up to which routes are open, seen from `now`: those that lie too
/// far ahead, and those that are past. Pointers are relative to `/routes`.
#[must_use]
pub fn open_dates(routes: &[RouteConfig], now: &Now) -> (Vec<Problem>, Vec<Problem>) {
    let (mut far, mut past) = (Vec::new(), Vec::new());
    let last = Moment(now.plus(FURTHEST).unix_nanos);
    for (at, route) in routes.iter().enumerate() {
        let Some(open) = &route.open_while_opa_fails else { continue };
        let note = |what: &str, fix: &str| {
            let at = format!("/{at}/open_while_opa_fails/until");
            Problem::new(at, format!("`{}` {what}", open.until), fix)
        };
        if open.until.is_past(now) {
            past.push(note("is past", "remove the section: the route is closed again"));
        } else if open.until > last {
            far.push(note("is more than 90 days ahead", "write an earlier date"));
        }
    }
    (far, past)
}
