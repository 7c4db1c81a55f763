//! What is wrong with a configuration, said so that it can be mended.

/// One problem of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer to the value, such as `/routes/3/match/path`; empty for the whole file.
    pub pointer: String,
    /// What is wrong, naming the value where it is not a secret.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl Problem {
    /// A problem at `pointer`.
    pub fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { pointer: pointer.into(), message: message.into(), fix: fix.into() }
    }

    /// The same problem, seen from the parent that holds the value under `prefix`
    /// (a JSON pointer such as `/routes`).
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}
