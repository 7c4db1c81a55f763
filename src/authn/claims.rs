//! The claims of a token whose signature is verified (RFC 7519, section 4; RFC 9068). A claim of
//! the wrong type is refused, never taken as absent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::rules::Rules;
use crate::clock::{Expiry, Now};
use crate::model::{Code, Digest, Fragment, Grant, Refusal, VerifiedToken};

const fn invalid(detail: &'static str) -> Refusal {
    Refusal::new(Code::TokenClaims, detail)
}

/// Holds `claims` against the issuer's rules at `now` and makes the verified token of them.
pub(super) fn check(
    claims: &Map<String, Value>,
    rules: &Rules,
    names: (Digest, Digest),
    now: &Now,
) -> Result<VerifiedToken, Refusal> {
    check_kind(claims)?;
    let subject = match claims.get("sub") {
        Some(Value::String(subject)) if !subject.is_empty() => Arc::<str>::from(subject.as_str()),
        Some(_) => return Err(invalid("sub is not a filled string")),
        None => return Err(invalid("no sub")),
    };
    let audiences = audiences(claims, rules)?;
    let client = client(claims, rules)?;
    let scopes = scopes(claims)?;
    if !rules.required.iter().all(|name| claims.get(name).is_some_and(|value| !value.is_null())) {
        return Err(invalid("a claim that the issuer's configuration requires is missing"));
    }
    let times = times(claims, rules.leeway, now)?;
    let grant = rules.grants.of(Grant {
        issuer: Arc::clone(&rules.issuer),
        issuer_name: Arc::clone(&rules.name),
        client_id: client,
        audiences: audiences.into(),
        scopes: scopes.into(),
    });
    Ok(VerifiedToken::new(grant, subject, declared(claims, &rules.claims), times, names))
}

/// No ID or refresh token, as some issuers mark them in the payload, and none that is bound to
/// a proof (RFC 7800) which nobody checks here.
fn check_kind(claims: &Map<String, Value>) -> Result<(), Refusal> {
    let refused = match claims.get("typ") {
        None => false,
        Some(Value::String(kind)) => {
            kind.eq_ignore_ascii_case("ID") || kind.eq_ignore_ascii_case("Refresh")
        }
        Some(_) => true,
    };
    if refused {
        return Err(Refusal::new(Code::TokenType, "typ of the payload is no access token's"));
    }
    if claims.contains_key("cnf") {
        return Err(Refusal::new(Code::TokenBound, "the token has cnf"));
    }
    Ok(())
}

/// A filled string, or a list of filled strings.
fn strings(value: &Value) -> Option<Vec<Box<str>>> {
    let filled = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.as_str().into()),
        _ => None,
    };
    match value {
        Value::Array(list) => list.iter().map(filled).collect(),
        one => filled(one).map(|one| vec![one]),
    }
}

fn audiences(claims: &Map<String, Value>, rules: &Rules) -> Result<Vec<Box<str>>, Refusal> {
    let audiences = match (claims.get("aud"), &rules.audiences) {
        (None, None) => return Ok(Vec::new()),
        (None, Some(_)) => return Err(invalid("no aud")),
        (Some(value), _) => strings(value)
            .filter(|list| !list.is_empty())
            .ok_or(invalid("aud is neither a filled string nor a list of them"))?,
    };
    match &rules.audiences {
        Some(ours) if !audiences.iter().any(|audience| ours.contains(audience)) => {
            Err(Refusal::new(Code::TokenAudience, "aud is for others"))
        }
        _ => Ok(audiences),
    }
}

fn client(claims: &Map<String, Value>, rules: &Rules) -> Result<Option<Arc<str>>, Refusal> {
    let value = ["client_id", "azp", "appid"].iter().find_map(|name| claims.get(*name));
    let client = match value {
        None => None,
        Some(Value::String(client)) if !client.is_empty() => Some(client.as_str()),
        Some(_) => return Err(invalid("the client is not a filled string")),
    };
    if let Some(allowed) = &rules.clients
        && !client.is_some_and(|client| allowed.iter().any(|known| **known == *client))
    {
        return Err(Refusal::new(Code::TokenClient, "the client is not one of the issuer's"));
    }
    Ok(client.map(Arc::from))
}

/// `scope` (RFC 8693, section 4.2: one string separated by spaces), else `scp`; either may be a
/// list.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<Box<str>>, Refusal> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => {
            Ok(text.split(' ').filter(|scope| !scope.is_empty()).map(Box::from).collect())
        }
        Some(value) => strings(value).ok_or(invalid("the scope is no string and no list of them")),
    }
}

/// A `NumericDate` in nanoseconds since the epoch; a fraction counts, what is too large or too
/// small for the type is the largest or smallest.
fn numeric_date(value: &Value) -> Option<i64> {
    let Value::Number(number) = value else { return None };
    if let Some(seconds) = number.as_i64() {
        return Some(seconds.saturating_mul(1_000_000_000));
    }
    if number.is_u64() {
        return Some(i64::MAX);
    }
    let seconds = number.as_f64().filter(|seconds| seconds.is_finite())?;
    let size = Duration::try_from_secs_f64(seconds.abs()).unwrap_or(Duration::MAX);
    let nanos = i64::try_from(size.as_nanos()).unwrap_or(i64::MAX);
    Some(if seconds < 0.0 { nanos.saturating_neg() } else { nanos })
}

fn optional_date(
    claims: &Map<String, Value>,
    name: &str,
    error: Refusal,
) -> Result<Option<i64>, Refusal> {
    claims.get(name).map(|value| numeric_date(value).ok_or(error)).transpose()
}

/// The token serves from `nbf − leeway` up to, not at, `exp + leeway`; `iat` is no later than
/// `leeway` from now.
fn times(
    claims: &Map<String, Value>,
    leeway: Duration,
    now: &Now,
) -> Result<(Expiry, Option<i64>), Refusal> {
    let leeway = i64::try_from(leeway.as_nanos()).unwrap_or(i64::MAX);
    let exp = optional_date(claims, "exp", invalid("exp is not a number"))?
        .ok_or(invalid("no exp"))?
        .saturating_add(leeway);
    let nbf = optional_date(claims, "nbf", invalid("nbf is not a number"))?;
    let iat = optional_date(claims, "iat", invalid("iat is not a number"))?;
    let left = u64::try_from(exp.saturating_sub(now.unix_nanos)).unwrap_or(0);
    if left == 0 {
        return Err(Refusal::new(Code::TokenExpired, "exp has passed"));
    }
    let not_before = nbf.map(|nbf| nbf.saturating_sub(leeway));
    if not_before.is_some_and(|start| now.unix_nanos < start) {
        return Err(Refusal::new(Code::TokenNotYetValid, "nbf has not come"));
    }
    if iat.is_some_and(|issued| issued.saturating_sub(leeway) > now.unix_nanos) {
        return Err(Refusal::new(Code::TokenNotYetValid, "iat has not come"));
    }
    Ok((Expiry::after(now, Duration::from_nanos(left)), not_before))
}

/// The declared claims that are there; null is absent.
fn declared(claims: &Map<String, Value>, names: &[Arc<str>]) -> Fragment {
    let filled = |name: &Arc<str>| Some((name.to_string(), claims.get(&**name)?.clone()));
    let all = names.iter().filter_map(filled).filter(|(_, value)| !value.is_null()).collect();
    Fragment::new(&Value::Object(all))
}
