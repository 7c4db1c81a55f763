//! Secrets are a type whose `Debug` shows nothing.

/// A value that must not reach a log, an audit record, a metric, a trace or an answer.
#[derive(Clone, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; the one way to it, so that a reader can find every use.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> std::fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for Secret<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Secret{}", T::schema_name()).into()
    }

    /// That of `T`, marked `writeOnly`, by which messages know not to quote the value.
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("writeOnly".to_owned(), true.into());
        schema
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a05_debug_shows_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?} {secret:#?}"), "[secret] [secret]");
    }
}
