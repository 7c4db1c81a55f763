//! `envoy.metadata`: which members a Check's dynamic metadata have.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

/// What Portcullis can say of a Check in Envoy's dynamic metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Member {
    /// Everything below that is known, as one text: `check_id=… decision_id=… reason=…`. Values
    /// have no spaces.
    Summary,
    /// This Check's own id, as in audit.
    CheckId,
    /// The evaluation that decided; the same for every Check that it answers.
    DecisionId,
    /// An OPA server's `decision_id`.
    EngineDecisionId,
    /// Why.
    Reason,
    /// The configured name of the route.
    Route,
    /// The keyed hash that stands for the subject, as in audit.
    Subject,
    /// Revision of the policies.
    PolicyRevision,
    /// Where the token's verification came from.
    TokenCache,
    /// Where the user context came from.
    ContextCache,
    /// Where the decision came from.
    DecisionCache,
}

/// A set of [`Member`]s. Envoy copies every member of every answer, so each costs it time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Members(u16);

impl Members {
    /// Whether `member` is among them.
    #[must_use]
    pub fn has(self, member: Member) -> bool {
        self.0 & bit(member) != 0
    }

    /// These, and what whoever looks into a refusal needs. Refusals are few, so their cost does
    /// not count.
    #[must_use]
    pub fn of_refusal(self) -> Self {
        let needed =
            [Member::CheckId, Member::DecisionId, Member::EngineDecisionId, Member::Reason];
        Self(self.0 | Self::from_iter(needed).0)
    }
}

fn bit(member: Member) -> u16 {
    1 << member as u16
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        Self(members.into_iter().fold(0, |all, member| all | bit(member)))
    }
}

impl Default for Members {
    /// What an access log shows, at the price of one member.
    fn default() -> Self {
        Self::from_iter([Member::Summary])
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Member>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for Members {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Members".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Member>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_set_and_an_unknown_name_is_refused_with_those_that_exist() {
        let read = |json: &str| serde_json::from_str::<Members>(json);
        let some = read(r#"["route", "reason", "route"]"#).unwrap();
        assert!(some.has(Member::Route) && some.has(Member::Reason) && !some.has(Member::CheckId));
        assert_eq!(read("[]").unwrap(), [].into_iter().collect());
        let error = read(r#"["token"]"#).unwrap_err().to_string();
        assert!(error.contains("token_cache") && error.contains("check_id"), "{error}");
    }
}
