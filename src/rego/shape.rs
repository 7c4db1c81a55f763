//! What the compiled policies consist of, read off the interpreter's syntax tree: which rules
//! there are, what each calls and refers to, and where.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::Reason;

/// A place in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) col: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.col)
    }
}

/// One call of a function.
#[derive(Debug)]
pub(super) struct Call {
    /// As written, with an import's alias replaced by what it stands for.
    pub(super) name: Vec<String>,
    pub(super) place: Place,
    /// The arguments, as syntax.
    pub(super) args: Vec<Value>,
    /// Not a call but the replacement that a `with` names.
    pub(super) is_with: bool,
}

/// One rule or function, or one of several that share a name.
#[derive(Debug, Default)]
pub(super) struct Rule {
    /// Such as `["data", "acme", "authz", "decision"]`.
    pub(super) path: Vec<String>,
    /// How many components of the path are the package's.
    pub(super) package: usize,
    /// Number of arguments where it is a function.
    pub(super) arity: Option<usize>,
    pub(super) place: Option<Place>,
    /// How deeply its expressions nest.
    pub(super) nesting: usize,
    pub(super) calls: Vec<Call>,
    /// References, each as far as it is static, an import's alias replaced.
    pub(super) refs: BTreeSet<Vec<String>>,
    /// Strings that are given as reasons: values of a member `reason`, and all in a rule whose
    /// name contains `reason`.
    pub(super) reasons: BTreeSet<String>,
    /// Every other string that has the form of a reason.
    pub(super) texts: BTreeSet<String>,
    /// Where the interpreter and OPA would not agree, and how to write it instead.
    pub(super) disputed: Vec<(Place, &'static str, &'static str)>,
    /// Names that the rule itself declares.
    locals: BTreeSet<String>,
}

#[derive(Deserialize)]
pub(super) struct Module {
    pub(super) source: Source,
    pub(super) ast: Value,
}

#[derive(Deserialize)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) contents: String,
}

#[derive(Deserialize)]
struct Ast {
    package: Package,
    imports: Vec<Import>,
    rules: Vec<Value>,
}

#[derive(Deserialize)]
struct Package {
    refr: Value,
}

#[derive(Deserialize)]
struct Import {
    refr: Value,
    r#as: Option<Value>,
}

/// The modules in the interpreter's `get_ast_as_json`.
pub(super) fn modules(ast: &str) -> Result<Vec<Module>, serde_json::Error> {
    serde_json::from_str(ast)
}

/// The rules of all modules.
pub(super) fn rules(modules: &[Module]) -> Result<Vec<Rule>, serde_json::Error> {
    let rules = modules.iter().map(module_rules).collect::<Result<Vec<_>, _>>()?;
    Ok(rules.into_iter().flatten().collect())
}

fn module_rules(module: &Module) -> Result<Vec<Rule>, serde_json::Error> {
    let ast = Ast::deserialize(&module.ast)?;
    let mut package = vec!["data".to_owned()];
    package.extend(static_path(&ast.package.refr).0);
    let mut imports = BTreeMap::new();
    for import in &ast.imports {
        let path = static_path(&import.refr).0;
        let alias = match &import.r#as {
            Some(span) => Some(text(span, &module.source.contents)),
            None => path.last().cloned(),
        };
        // `rego.v1` and `future.keywords` name nothing.
        if let (Some(alias), Some("data" | "input")) = (alias, path.first().map(String::as_str)) {
            imports.insert(alias, path);
        }
    }
    let reader = Reader { source: &module.source, package: &package, imports: &imports };
    Ok(ast.rules.iter().filter_map(|rule| reader.rule(rule)).collect())
}

/// The static components of a reference from its root on, and whether that is all of it.
fn static_path(expr: &Value) -> (Vec<String>, bool) {
    let Some((kind, node)) = variant(expr) else { return (Vec::new(), false) };
    let step = match kind {
        "Var" => return (node.get("value").and_then(name_of).into_iter().collect(), true),
        "RefDot" => node.pointer("/field/1").and_then(name_of),
        "RefBrack" => node.pointer("/index/String/value").and_then(name_of),
        _ => return (Vec::new(), false),
    };
    let (mut path, whole) = node.get("refr").map(static_path).unwrap_or_default();
    match step {
        Some(step) if whole => path.push(step),
        _ => return (path, false),
    }
    (path, true)
}

fn name_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A node of the tree: an object whose one member is named like a Rust enum's variant.
pub(super) fn variant(node: &Value) -> Option<(&str, &Value)> {
    let object = node.as_object()?;
    let (kind, inner) = object.iter().next()?;
    (object.len() == 1 && kind.starts_with(|c: char| c.is_ascii_uppercase()))
        .then_some((kind.as_str(), inner))
}

fn text(span: &Value, contents: &str) -> String {
    let at =
        |name: &str| span.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let range = at("start").zip(at("end")).and_then(|(start, end)| contents.get(start..end));
    range.unwrap_or_default().to_owned()
}

struct Reader<'a> {
    source: &'a Source,
    package: &'a [String],
    imports: &'a BTreeMap<String, Vec<String>>,
}

impl Reader<'_> {
    fn rule(&self, rule: &Value) -> Option<Rule> {
        let (kind, node) = variant(rule)?;
        let named = if kind == "Default" { node } else { variant(node.get("head")?)?.1 };
        let (refr, args) = (named.get("refr")?, named.get("args"));
        let mut path = self.package.to_vec();
        path.extend(static_path(refr).0);
        let args = args.and_then(Value::as_array).filter(|args| {
            // A `default` of a plain rule has an empty list of arguments.
            kind != "Default" || !args.is_empty()
        });
        let mut found = Rule {
            path,
            package: self.package.len(),
            arity: args.map(Vec::len),
            place: Some(self.place(node)),
            ..Rule::default()
        };
        for arg in args.into_iter().flatten() {
            declare(arg, &mut found.locals);
        }
        // The head names the rule; only what it computes there is a reference.
        let mut node = node.clone();
        for holder in ["", "/head/Compr", "/head/Set", "/head/Func"] {
            if let Some(Value::Object(holder)) = node.pointer_mut(holder)
                && let Some(refr) = holder.remove("refr")
            {
                steps(&refr).for_each(|step| self.visit(step, 1, kind, &mut found));
            }
        }
        self.visit(&node, 0, kind, &mut found);
        let locals = std::mem::take(&mut found.locals);
        found.refs.retain(|path| path.first().is_none_or(|root| !locals.contains(root)));
        Some(found)
    }

    fn place(&self, node: &Value) -> Place {
        let number = |name: &str| node.pointer(name).and_then(Value::as_u64).unwrap_or_default();
        Place {
            file: self.source.file.clone(),
            line: number("/span/line"),
            col: number("/span/col"),
        }
    }

    /// `path` with its root replaced where that is an import's alias.
    fn resolve(&self, path: Vec<String>) -> Vec<String> {
        match path.split_first() {
            Some((root, rest)) => match self.imports.get(root) {
                Some(target) => [target, rest].concat(),
                None => path,
            },
            None => path,
        }
    }

    fn visit(&self, node: &Value, nesting: usize, parent: &str, found: &mut Rule) {
        found.nesting = found.nesting.max(nesting);
        match node {
            Value::Array(items) => {
                for item in items {
                    self.visit(item, nesting, parent, found);
                }
            }
            Value::Object(members) => {
                if let Some((kind, inner)) = variant(node) {
                    self.dispute(kind, inner, parent, found);
                    self.enter(kind, node, inner, found);
                    if matches!(kind, "RefDot" | "RefBrack") {
                        // Its own beginnings are no references of their own.
                        steps(node).for_each(|step| self.visit(step, nesting + 1, kind, found));
                    } else {
                        self.descend(inner, nesting + 1, kind, found);
                    }
                } else {
                    if let (Some(_), Some(with)) = (members.get("refr"), members.get("as")) {
                        self.with(with, members, found);
                    }
                    self.descend(node, nesting, parent, found);
                }
            }
            _ => {}
        }
    }

    fn descend(&self, node: &Value, nesting: usize, parent: &str, found: &mut Rule) {
        match node {
            Value::Object(members) => {
                for (_, inner) in members.iter().filter(|(name, _)| *name != "span") {
                    self.visit(inner, nesting, parent, found);
                }
            }
            other => self.visit(other, nesting, parent, found),
        }
    }

    /// Notes what OPA would compute otherwise: `in` on what is undefined is undefined.
    fn dispute(&self, kind: &str, inner: &Value, parent: &str, found: &mut Rule) {
        if kind == "Membership" && !matches!(parent, "Expr" | "NotExpr") {
            found.disputed.push((
                self.place(inner),
                "`in` is used as a value",
                "let it stand alone in a body: `is_member if x in xs`",
            ));
        }
    }

    /// Notes what one node means, before its children are visited.
    fn enter(&self, kind: &str, node: &Value, inner: &Value, found: &mut Rule) {
        let span = |name: &str, found: &mut Rule| {
            if let Some(span) = inner.get(name).filter(|span| span.is_object()) {
                found.locals.insert(text(span, &self.source.contents));
            }
        };
        match kind {
            "Call" => found.calls.extend(self.call(inner)),
            "Var" | "RefDot" | "RefBrack" => {
                let (path, _) = static_path(node);
                if !path.is_empty() {
                    found.refs.insert(self.resolve(path));
                }
            }
            "AssignExpr" if inner.get("op").and_then(Value::as_str) == Some("ColEq") => {
                inner.get("lhs").into_iter().for_each(|lhs| declare(lhs, &mut found.locals));
            }
            "SomeIn" => {
                for name in ["key", "value"] {
                    inner.get(name).into_iter().for_each(|v| declare(v, &mut found.locals));
                }
            }
            "SomeVars" => {
                for span in inner.get("vars").and_then(Value::as_array).into_iter().flatten() {
                    found.locals.insert(text(span, &self.source.contents));
                }
            }
            "Every" => {
                span("key", found);
                span("value", found);
            }
            "Object" => reasons(inner, &mut found.reasons),
            "String" if found.path.last().is_some_and(|name| name.contains("reason")) => {
                found.reasons.extend(inner.get("value").and_then(name_of));
            }
            "String" | "RawString" => {
                let text = inner.get("value").and_then(Value::as_str);
                let fits = |text: &&str| Reason::from_policy(text).is_some();
                found.texts.extend(text.filter(fits).map(str::to_owned));
            }
            _ => {}
        }
    }

    fn call(&self, call: &Value) -> Option<Call> {
        let (path, _) = static_path(call.get("fcn")?);
        let args = call.get("params")?.as_array()?.clone();
        Some(Call { name: self.resolve(path), place: self.place(call), args, is_with: false })
    }

    fn with(&self, with: &Value, modifier: &Map<String, Value>, found: &mut Rule) {
        let (path, whole) = static_path(with);
        if whole && !path.is_empty() {
            let place = self.place(&Value::Object(modifier.clone()));
            let name = self.resolve(path);
            found.calls.push(Call { name, place, args: Vec::new(), is_with: true });
        }
    }
}

/// What a reference is made of that must be looked into: what is in brackets along it, and its
/// root where that is no name.
pub(super) fn steps(refr: &Value) -> impl Iterator<Item = &Value> {
    std::iter::successors(Some(refr), |node| variant(node)?.1.get("refr")).filter_map(|node| {
        match variant(node)? {
            ("RefDot" | "Var", _) => None,
            ("RefBrack", inner) => inner.get("index"),
            _ => Some(node),
        }
    })
}

/// The variables of a pattern.
fn declare(pattern: &Value, locals: &mut BTreeSet<String>) {
    match pattern {
        Value::Array(items) => items.iter().for_each(|item| declare(item, locals)),
        Value::Object(members) => match variant(pattern) {
            Some(("Var", inner)) => locals.extend(inner.get("value").and_then(name_of)),
            Some((_, inner)) => declare(inner, locals),
            None => members.values().for_each(|inner| declare(inner, locals)),
        },
        _ => {}
    }
}

/// Strings that an object gives as its `reason`.
fn reasons(object: &Value, found: &mut BTreeSet<String>) {
    for field in object.get("fields").and_then(Value::as_array).into_iter().flatten() {
        if field.pointer("/1/String/value").and_then(Value::as_str) == Some("reason") {
            found.extend(field.pointer("/2/String/value").and_then(name_of));
        }
    }
}
