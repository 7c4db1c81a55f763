//! The port to the deployment's mapping rule.

use crate::clock::Now;

/// Makes the user of what is known of him. The wiring adapts the embedded Rego engine to it.
pub trait Mapper: Send + Sync {
    /// The user made of `input_json`: an object with `profile` (with a user API), `identity`
    /// and `token`. Called off the runtime's own threads; bounds its own time and memory.
    ///
    /// # Errors
    /// If the rule gives no user.
    fn map(&self, input_json: &str, now: &Now) -> Result<serde_json::Value, MapError>;

    /// As [`Mapper::map`], on a thread of the runtime; `None` where that would hold it up.
    fn map_here(&self, _: &str, _: &Now) -> Option<Result<serde_json::Value, MapError>> {
        None
    }

    /// Revision of the rule and of what it reads; a context made under one revision never
    /// serves under another.
    fn revision(&self) -> &str;
}

/// Why a mapping rule gave no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The rule has no value for this input.
    #[error("the mapping rule is undefined")]
    Undefined,
    /// The rule's value is no object.
    #[error("the mapping rule's value is no object")]
    NoObject,
    /// The rule failed on this input.
    #[error("the mapping rule failed")]
    Failed,
    /// The evaluation reached its limit of time or memory.
    #[error("the mapping rule reached its limit")]
    Limit,
    /// The evaluation was starved of CPU time; neither rule nor input are to blame.
    #[error("the mapping rule was starved of CPU time")]
    Starved,
}

impl MapError {
    /// As static text, for refusals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Undefined => "the mapping rule is undefined",
            Self::NoObject => "the mapping rule's value is no object",
            Self::Failed => "the mapping rule failed",
            Self::Limit => "the mapping rule reached its limit",
            Self::Starved => "the mapping rule was starved of CPU time",
        }
    }
}
