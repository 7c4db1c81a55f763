//! Configuration of the routes and of how targets are read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{BodyForm, HumanSize, Moment, Problem};

/// The `routes` section, in file order: the first match wins.
pub type RoutesConfig = Vec<RouteConfig>;

/// How request targets are read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathConfig {
    /// Decide on the target as Envoy leaves it with `normalize_path: true`, `merge_slashes: true`
    /// and `path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD`, instead of refusing dot
    /// segments, empty segments, `\`, `%2F` and `%5C`. Only for an Envoy with exactly these
    /// settings on every listener: any other backend would see another path than was decided.
    pub trust_envoy_normalisation: bool,
}

/// One route: which requests it is for, who may pass, and what the policy is told.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Name in metrics, audit and logs; unique.
    pub name: String,
    /// Which requests the route is for; left out matches all of them.
    #[serde(default, rename = "match")]
    pub matches: MatchConfig,
    /// Who may pass.
    pub access: Access,
    /// Names of the issuers whose tokens pass; left out means every configured issuer.
    #[serde(default)]
    pub issuers: Vec<String>,
    /// One of these must be in the token's `aud`; left out leaves it to the issuer's own list.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// All of these must be in the token's scopes.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// `realm` of the challenge (RFC 6750, section 3); left out means the route's name.
    pub realm: Option<String>,
    /// Name of the policy entry point that decides; left out decides by `access` alone.
    pub policy: Option<String>,
    /// What is asked for: text with path variables, such as `{resource}`. A variable without
    /// value leaves `input.resource` absent.
    pub resource: Option<String>,
    /// What is to be done: one text for all methods, or a text for each method; a method that
    /// is not listed leaves `input.action` absent.
    pub action: Option<ActionConfig>,
    /// Further members of `input.context`, by name.
    #[serde(default)]
    pub attributes: BTreeMap<String, AttributeConfig>,
    /// Whether a request that may carry body attributes (POST, PUT, PATCH) must have a whole,
    /// unencoded JSON body; needed when an attribute is read from the body.
    pub body: Option<BodyRule>,
    /// Largest body that is read for attributes; larger is answered 413.
    #[serde(default = "default_max_body")]
    pub max_body: HumanSize,
    /// Managed headers without which an allow is a denial.
    #[serde(default)]
    pub require_headers: Vec<String>,
    /// Which of the headers that are otherwise removed on every allow (`forwarded`,
    /// `x-forwarded-host`, `x-original-url`, …) reach the backend.
    #[serde(default)]
    pub keep_headers: Vec<String>,
    /// Cookies that are credentials. Where a request carries one, the `cookie` header is removed
    /// before the backend unless `cookie` is forwarded.
    #[serde(default)]
    pub credential_cookies: Vec<String>,
    /// Credentials that reach the backend although this route does not verify them.
    #[serde(default)]
    pub forward_credentials: Vec<Forwarded>,
    /// Spellings of a target that are accepted here although two readers could differ on them.
    #[serde(default)]
    pub accept_spellings: Vec<Spelling>,
    /// Form of the bodies of denials.
    #[serde(default)]
    pub errors: BodyForm,
    /// While the OPA server cannot be reached or answers with server errors, and no last decision
    /// may serve, this route passes everybody whom `access` admits; silence opens nothing. Every
    /// such answer is marked `open`; headers that the route requires are not there, so with
    /// `require_headers` nothing passes. Left out, it is *unavailable*.
    pub open_while_opa_fails: Option<OpenConfig>,
}

/// Until when, and why, a route is open while OPA fails.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenConfig {
    /// From then on it is closed, whatever fails; 90 days ahead at most, such as
    /// `2027-01-31T00:00:00Z`.
    pub until: Moment,
    /// Who accepted that nobody is asked meanwhile, and why.
    pub reason: String,
}

fn default_max_body() -> HumanSize {
    HumanSize(1 << 20)
}

/// Which requests a route is for: all that is given must hold.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MatchConfig {
    /// Host names; `*.example.test` stands for every name below it. Left out matches any host.
    pub hosts: Option<Vec<String>>,
    /// Path template: `/exact`, `/orders/{id}` (one segment), `/data/{resource}/{**rest}` (all
    /// further segments, none included, also with a final `/`). A final `/` of a request matches
    /// only a template that ends in `/` or in `{**…}`.
    pub path: Option<String>,
    /// Path prefix by whole segments: `/data` matches `/data`, `/data/` and `/data/x`, never
    /// `/database`. The same as the template `/data/{**}`.
    pub path_prefix: Option<String>,
    /// HTTP methods, compared exactly. Left out matches any method.
    pub methods: Option<Vec<String>>,
    /// Request headers by name with the exact value. A repeated header is compared as its values
    /// joined by commas.
    pub headers: BTreeMap<String, String>,
    /// Entries of the Envoy route's `context_extensions` with the exact value.
    pub context_extensions: BTreeMap<String, String>,
}

/// Who may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everybody; credentials are not read.
    Public,
    /// Anonymous callers and those with a valid credential.
    Optional,
    /// Only callers with a valid credential.
    Authenticated,
}

/// What is to be done.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ActionConfig {
    /// The same for every method.
    One(String),
    /// By HTTP method.
    ByMethod(BTreeMap<String, String>),
}

/// Whether a body is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyRule {
    /// Without a readable body the answer is 400.
    Required,
    /// Without a readable body `context.body_state` says why: `absent`, `partial`, `encoded` or
    /// `broken`.
    Optional,
}

/// What an attribute is to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// It says what is asked for; the backend acts on the same bytes.
    #[default]
    Selects,
    /// It is evidence, so it never comes from the client.
    Vouches,
}

/// Type of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A JSON string.
    String,
    /// A JSON number; its digits are kept as they are written.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// One name or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Names {
    /// One name.
    One(String),
    /// Several, each an alias of the others.
    Many(Vec<String>),
}

impl Names {
    /// The names, in the order written.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// One declared attribute: exactly one source, save that `query` and `body` may be given together.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AttributeConfig {
    /// A variable of the path template.
    pub path: Option<String>,
    /// A query parameter or several aliases of one; `+` and `%20` are a space. Its values also
    /// enter `input.context.query` under the name that was sent.
    pub query: Option<Names>,
    /// A request header.
    pub header: Option<String>,
    /// JSON pointer into the request's body (RFC 6901), such as `/office/id`.
    pub body: Option<String>,
    /// A declared claim by name, or a JSON pointer into the declared claims.
    pub claim: Option<String>,
    /// What Envoy says of the client's connection.
    pub peer: Option<PeerField>,
    /// An entry of the Envoy route's `context_extensions`.
    pub extension: Option<String>,
    /// What the attribute is to a decision.
    #[serde(rename = "use")]
    pub purpose: Use,
    /// The attribute may have several values and is always a list.
    pub list: bool,
    /// Type of the value, or of each value of a list. Left out: a string, save that a value from
    /// the body alone or from a claim stays what it is.
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
}

/// What Envoy says of the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerField {
    /// Its IP address.
    Address,
    /// The authenticated identity of its certificate.
    Principal,
}

/// A credential that may be forwarded unverified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarded {
    /// The `authorization` header.
    Authorization,
    /// The `cookie` header.
    Cookie,
    /// The `access_token` query parameter (RFC 6750, section 2.3).
    AccessToken,
}

/// A spelling that is refused unless a route accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spelling {
    /// `%2F` inside a segment.
    EncodedSlash,
    /// `;` or `%3B` inside a segment, such as matrix parameters.
    Semicolon,
}

/// Everything wrong with the routes that can be seen without other sections; pointers are
/// relative to `/routes`. Names of issuers, entry points and managed headers belong to other
/// sections: whoever holds them all compares `issuers`, `policy` and `require_headers`.
#[must_use]
pub fn problems(routes: &[RouteConfig]) -> Vec<Problem> {
    super::validate::problems(routes)
}
