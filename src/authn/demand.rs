//! What is asked of a verified token on every Check: the time, and the route's demand.

use std::sync::Arc;

use crate::clock::Now;
use crate::model::{Code, Demand, Refusal, VerifiedToken};

/// Whether the route accepts tokens of the issuer `name`.
pub(super) fn accepts_issuer(demand: &Demand, name: &Arc<str>) -> Result<(), Refusal> {
    if demand.issuers.is_empty() || demand.issuers.contains(name) {
        return Ok(());
    }
    Err(Refusal::new(Code::TokenIssuer, "the route accepts other issuers"))
}

/// Whether the token serves at `now`; asked again on every hit.
pub(super) fn in_time(token: &VerifiedToken, now: &Now) -> Result<(), Refusal> {
    if token.expires.is_past(now) {
        return Err(Refusal::new(Code::TokenExpired, "exp has passed"));
    }
    if token.not_before_nanos.is_some_and(|start| now.unix_nanos < start) {
        return Err(Refusal::new(Code::TokenNotYetValid, "nbf has not come"));
    }
    Ok(())
}

/// Whether the token is what the route asks for.
pub(super) fn meets(token: &VerifiedToken, demand: &Demand) -> Result<(), Refusal> {
    let grant = &token.grant;
    accepts_issuer(demand, &grant.issuer_name)?;
    let asked = &demand.audiences;
    if !asked.is_empty() && !grant.audiences.iter().any(|audience| asked.contains(audience)) {
        return Err(Refusal::new(Code::TokenAudience, "the route is for other audiences"));
    }
    if !demand.scopes.iter().all(|scope| grant.scopes.contains(scope)) {
        return Err(Refusal::new(
            Code::InsufficientScope,
            "a scope that the route needs is missing",
        ));
    }
    Ok(())
}
