//! The users whom the playground's user API knows, in the CWMS profile's shape: four by name, and
//! as many as a load figure needs, who are called `load.` and a
//! number, or more of them with dots between.

use serde_json::{Value, json};

/// The profile of `user`, compared without regard to case; `None` for a stranger.
pub(crate) fn profile(user: &str) -> Option<Value> {
    let name = user.to_ascii_lowercase();
    let numbered = name.strip_prefix("load.").is_some_and(digits);
    let (roles, privileges) = match if numbered { "dam.operator" } else { &name } {
        "dam.operator" => (
            json!({ "SPK": ["dam_operator", "CWMS Users"] }),
            json!([
                privilege(1, "dam_operator_raw_r_72h", "read", 72),
                privilege(2, "dam_operator_rev_r_0h", "read", 0),
            ]),
        ),
        "water.manager" => (json!({ "SWT": ["water_manager", "CWMS Users"] }), json!([])),
        "viewer" => (json!({ "SPL": ["Viewer Users"] }), json!([])),
        "admin" => (json!({ "HQ": ["system_admin"] }), json!([])),
        _ => return None,
    };
    Some(json!({
        "user-name": user.to_ascii_uppercase(),
        "email": format!("{}@example.test", user.to_ascii_lowercase()),
        "roles": roles,
        "ts-group-privileges": privileges,
    }))
}

/// A number, or several with dots between.
fn digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

fn privilege(code: u32, id: &str, privilege: &str, embargo: u32) -> Value {
    json!({
        "ts-group-code": code, "ts-group-id": id,
        "privilege": privilege, "embargo-hours": embargo,
    })
}
