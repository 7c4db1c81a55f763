//! Stable reasons: the one code that metric label, audit field, log and answer share.

use std::fmt;
use std::sync::Arc;

/// What kind of outcome a code belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request may pass.
    Allow,
    /// It may not, with this HTTP status.
    Deny(u16),
    /// It could not be decided.
    Unavailable,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal, $class:expr;)+) => {
        /// The core's own reasons. Policies bring others (see [`Reason::Policy`]).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code, in the order of this list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable text.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// What kind of outcome it belongs to.
            #[must_use]
            pub fn class(self) -> Class {
                use Class::{Allow, Deny, Unavailable};
                match self { $(Self::$variant => $class,)+ }
            }

            /// One sentence for operators and for `error_description`; never request text.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// The policy allows it.
    Allowed = "allowed", Allow;
    /// The route is public and names no policy.
    PublicRoute = "public_route", Allow;
    /// The route asks for an authenticated caller, names no policy, and got one.
    Authenticated = "authenticated", Allow;
    /// The policy engine failed, and the route passes everybody meanwhile, until a date.
    PolicyOpen = "policy_open", Allow;

    /// The request carries no HTTP attributes.
    RequestMissing = "request_missing", Deny(400);
    /// The authorization request could not be decoded.
    Undecodable = "undecodable", Deny(400);
    /// The authorization request is larger than the decode limit.
    TooLarge = "too_large", Deny(413);
    /// The request target can be read in more than one way.
    PathNotCanonical = "path_not_canonical", Deny(400);
    /// The host is missing, given twice or not a host name.
    HostInvalid = "host_invalid", Deny(400);
    /// The Connection header asks the next hop to remove other headers.
    ConnectionOptions = "connection_options", Deny(400);
    /// No configured route matches.
    NoRoute = "no_route", Deny(403);
    /// A parameter is given more than once or in contradicting places.
    AmbiguousParameter = "ambiguous_parameter", Deny(400);
    /// A declared attribute cannot be decoded.
    AttributeInvalid = "attribute_invalid", Deny(400);
    /// The route needs a whole, unencoded JSON body without duplicate keys.
    BodyInvalid = "body_invalid", Deny(400);
    /// The policy input would exceed its limits of bytes, depth, members or string length.
    InputTooLarge = "input_too_large", Deny(413);

    /// The question to the decision API is not of the documented form.
    RequestInvalid = "request_invalid", Deny(400);
    /// A field of the question names a member that Portcullis itself sets.
    FieldReserved = "field_reserved", Deny(400);
    /// The API key is not one that is configured.
    ApiKeyUnknown = "api_key_unknown", Deny(401);
    /// The caller has no right to say this.
    CallerNotPermitted = "caller_not_permitted", Deny(403);

    /// The route needs a credential and none came.
    CredentialMissing = "credential_missing", Deny(401);
    /// More than one credential, or one source twice.
    CredentialAmbiguous = "credential_ambiguous", Deny(400);
    /// The credential's header is malformed.
    CredentialMalformed = "credential_malformed", Deny(401);
    /// The token is larger or deeper than allowed.
    TokenTooLarge = "token_too_large", Deny(401);
    /// The token is not a well-formed JWT.
    TokenMalformed = "token_malformed", Deny(401);
    /// The token's algorithm is not one of its issuer's.
    TokenAlgorithm = "token_algorithm", Deny(401);
    /// The token is of a type that is no access token.
    TokenType = "token_type", Deny(401);
    /// The token demands an extension that is not understood.
    TokenCritical = "token_critical", Deny(401);
    /// The token's issuer is not one that this route accepts.
    TokenIssuer = "token_issuer", Deny(401);
    /// The issuer has no such key.
    TokenKeyUnknown = "token_key_unknown", Deny(401);
    /// The token's signature does not verify.
    TokenSignature = "token_signature", Deny(401);
    /// A registered claim is missing or of the wrong type.
    TokenClaims = "token_claims", Deny(401);
    /// The token is for another audience.
    TokenAudience = "token_audience", Deny(401);
    /// The token was issued to a client that may not use it here.
    TokenClient = "token_client", Deny(401);
    /// The token has expired.
    TokenExpired = "token_expired", Deny(401);
    /// The token is not valid yet.
    TokenNotYetValid = "token_not_yet_valid", Deny(401);
    /// The token is bound to a proof that is not checked here.
    TokenBound = "token_bound", Deny(401);
    /// The token lacks a scope that the route needs.
    InsufficientScope = "insufficient_scope", Deny(403);

    /// The user API knows no such user.
    UnknownUser = "unknown_user", Deny(403);
    /// The user API does not accept the caller's credential.
    UserRefused = "user_refused", Deny(401);

    /// The policy denies it.
    PolicyDenied = "policy_denied", Deny(403);
    /// The policy denies it with a reason of its own that is no code.
    PolicyReason = "policy_reason", Deny(403);
    /// The policy gives no answer for this input.
    PolicyUndefined = "policy_undefined", Deny(403);
    /// The policy's evaluation failed on this input.
    PolicyError = "policy_error", Deny(403);
    /// The evaluation reached its limit of time or memory.
    EvaluationLimit = "evaluation_limit", Deny(403);
    /// The policy's answer is not of the agreed shape.
    DecisionShape = "decision_shape", Deny(403);
    /// The decision sets a header that is not declared as managed.
    HeaderNotDeclared = "header_not_declared", Deny(403);
    /// The decision sets a header value that cannot be sent safely.
    HeaderValueInvalid = "header_value_invalid", Deny(403);
    /// The decision sets a header that is larger than its limit.
    HeaderTooLarge = "header_too_large", Deny(403);
    /// An allow lacks a header that the route requires.
    RequiredHeaderMissing = "required_header_missing", Deny(403);
    /// The Check failed inside; this is a fault of ours, see the log.
    InternalError = "internal_error", Deny(500);

    /// The issuer's keys could not be fetched.
    KeysUnavailable = "keys_unavailable", Unavailable;
    /// The user API could not be asked or did not answer usefully.
    UserApiUnavailable = "user_api_unavailable", Unavailable;
    /// The policy engine could not be asked.
    PolicyUnavailable = "policy_unavailable", Unavailable;
    /// The Check's time ran out.
    DeadlineExceeded = "deadline_exceeded", Unavailable;
    /// Too many Checks are in flight.
    Overloaded = "overloaded", Unavailable;
    /// The caller went away before the answer was there.
    Cancelled = "cancelled", Unavailable;
}

/// Why: a code of the core, or one that a policy gave.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    /// One of the core's.
    Core(Code),
    /// A policy's, matching `[a-z0-9_]{1,64}`.
    Policy(Arc<str>),
}

impl Reason {
    /// A policy's reason, if it has the form of a code.
    #[must_use]
    pub fn from_policy(text: &str) -> Option<Self> {
        Self::is_code(text).then(|| Self::Policy(text.into()))
    }

    /// Whether `text` has the form of a code.
    #[must_use]
    pub fn is_code(text: &str) -> bool {
        (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    }

    /// The stable text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Core(code) => code.as_str(),
            Self::Policy(text) => text,
        }
    }
}

impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self::Core(code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a stage ends a Check early: a denial or an unavailability, as its code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", code.as_str())]
pub struct Refusal {
    /// Why; its [`Class`] says what kind of outcome this is.
    pub code: Code,
    /// What exactly, for log, audit and `decide`; static, so it never holds request text.
    pub detail: &'static str,
    /// Seconds after which asking again makes sense, where known (a dependency said so).
    pub retry_after: Option<u32>,
}

impl Refusal {
    /// A refusal for `code`.
    #[must_use]
    pub const fn new(code: Code, detail: &'static str) -> Self {
        Self { code, detail, retry_after: None }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self::new(code, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_5_every_core_reason_is_a_code_and_unique() {
        let mut seen = std::collections::HashSet::new();
        for code in Code::ALL {
            assert!(Reason::from_policy(code.as_str()).is_some(), "{code:?}");
            assert!(seen.insert(code.as_str()), "{code:?} twice");
            assert!(!code.about().is_empty());
        }
    }

    #[test]
    fn s3_5_a_policys_reason_must_have_the_form_of_a_code() {
        let long = "a".repeat(65);
        for text in ["", "Upper", "with space", "dash-ed", "new\nline", "é", long.as_str()] {
            assert_eq!(Reason::from_policy(text), None, "{text}");
        }
        assert_eq!(
            Reason::from_policy("office_not_yours_2").unwrap().as_str(),
            "office_not_yours_2"
        );
    }

    #[test]
    fn p09_every_denial_has_an_error_status() {
        for code in Code::ALL {
            if let Class::Deny(status) = code.class() {
                assert!((400..600).contains(&status), "{code:?}");
            }
        }
    }
}
