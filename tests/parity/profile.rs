//! Answers of a user API, and claims, for the mapping rule.

use serde_json::{Value, json};

use super::generate::{Generator, Members, OFFICES, ROLES, set};

impl Generator {
    /// A user API's answer, or claims, for the mapping rule.
    pub(super) fn profile(&mut self) -> Value {
        let mut input = Members::new();
        set(&mut input, "identity", json!({"method": "jwt", "subject": "s"}));
        let mut token = Members::new();
        if self.chance(70) {
            set(&mut token, "preferred_username", self.odd(json!("ann")));
        }
        if self.chance(60) {
            set(&mut token, "realm_access", json!({"roles": self.some(&ROLES, 3)}));
        }
        if self.chance(50) {
            set(&mut token, "email", self.odd(json!("a@example.test")));
        }
        set(&mut input, "token", token);
        if self.chance(80) {
            let mut profile = Members::new();
            set(&mut profile, "user-name", self.odd(json!("Ann.Lee")));
            let mut roles = Members::new();
            for office in self.some(&OFFICES, 3) {
                let held = json!(self.some(&ROLES, 3));
                set(&mut roles, office, self.odd(held));
            }
            set(&mut profile, "roles", roles);
            for (name, value) in [
                ("email", json!("Ann@example.test")),
                ("persona", json!("dam_operator")),
                ("timezone", json!("UTC")),
                ("shift-start", json!(6)),
                ("shift-end", json!(18)),
                ("allowed-parameters", json!(["Stage"])),
                ("partnership-expiry", json!("2027-01-01T00:00:00.5+01:00")),
                ("primary-office", json!("SPK")),
                (
                    "ts-group-privileges",
                    json!([{"ts-group-code": 1, "ts-group-id": "A", "privilege": "read", "embargo-hours": 1.5}]),
                ),
            ] {
                if self.chance(40) {
                    let value = self.odd(value);
                    set(&mut profile, name, value);
                }
            }
            set(&mut input, "profile", profile);
        }
        Value::Object(input)
    }

    /// Mostly `value`, now and then another type.
    fn odd(&mut self, value: Value) -> Value {
        if self.chance(95) {
            return value;
        }
        [json!(null), json!(7), json!(""), json!([]), json!({}), json!(true), json!([null])]
            [self.below(7)]
        .clone()
    }
}
