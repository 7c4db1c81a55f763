//! The declared claims of a token, small.

use std::sync::Arc;

use serde_json::Value;

/// Claims by name. A token has few, and a million tokens may be kept: a list takes what is in it,
/// where a tree takes room for eleven. Names are shared by all tokens of an issuer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims(Box<[(Arc<str>, Value)]>);

impl Claims {
    /// The claim `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every value.
    #[must_use]
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }
}

/// Names must differ.
impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Claims {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(claims: I) -> Self {
        Self(claims.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_found_by_their_exact_name() {
        let claims: Claims = [("b", json!(1)), ("a", json!("x"))].into_iter().collect();
        assert_eq!(claims.get("a"), Some(&json!("x")));
        assert_eq!((claims.get("A"), claims.get("")), (None, None));
        assert_eq!((claims.values().len(), claims.is_empty()), (2, false));
        assert!(Claims::default().is_empty());
    }
}
