//! Which rule leads to which, so that no policy recurses, none nests deeper than the stack
//! allows, and it is known what an entry point reaches.

use std::collections::{BTreeMap, BTreeSet};

use super::shape::Rule;

/// Nested expressions on the longest chain of rules that depend on one another. The interpreter
/// recurses for each; it was measured to use less than 2 KiB of stack for one (10 KiB in a
/// debug build), and the smallest stack that evaluates is the runtime's 2 MiB.
pub(super) const MAX_NESTING: usize = 160;

/// The rules by path, those of one name taken together.
pub(super) struct Graph {
    nodes: BTreeMap<Vec<String>, Node>,
}

#[derive(Default)]
struct Node {
    nesting: usize,
    next: BTreeSet<Vec<String>>,
    calls: BTreeSet<Vec<String>>,
    reasons: BTreeSet<String>,
    texts: BTreeSet<String>,
}

impl Graph {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut nodes = BTreeMap::<Vec<String>, Node>::new();
        for rule in rules {
            nodes.entry(rule.path.clone()).or_default();
        }
        let paths: BTreeSet<Vec<String>> = nodes.keys().cloned().collect();
        for rule in rules {
            let called = rule.calls.iter().map(|call| &call.name);
            let next: Vec<_> =
                rule.refs.iter().chain(called).flat_map(|to| leads_to(rule, to, &paths)).collect();
            if let Some(node) = nodes.get_mut(&rule.path) {
                node.nesting = node.nesting.max(rule.nesting);
                node.next.extend(next);
                node.calls.extend(rule.calls.iter().map(|call| call.name.clone()));
                node.reasons.extend(rule.reasons.iter().cloned());
                node.texts.extend(rule.texts.iter().cloned());
            }
        }
        Self { nodes }
    }

    /// A rule that starts a chain nested too deeply, or that depends on itself.
    pub(super) fn too_deep(&self) -> Option<&[String]> {
        let mut depth: BTreeMap<&[String], usize> = BTreeMap::new();
        loop {
            let mut changed = false;
            for (path, node) in &self.nodes {
                let below = node.next.iter().filter_map(|to| depth.get(to.as_slice()).copied());
                // A rule without nested expressions still takes its part of the stack.
                let own = node.nesting.max(1) + below.max().unwrap_or(0);
                if own > MAX_NESTING {
                    return Some(path);
                }
                changed |= depth.insert(path, own) != Some(own);
            }
            if !changed {
                return None;
            }
        }
    }

    /// A circle that `from` lies on.
    pub(super) fn circle(&self, from: &[String]) -> bool {
        let starts = self.nodes.get(from).map(|node| node.next.clone()).unwrap_or_default();
        self.reach(starts).contains(from)
    }

    /// Whether the evaluation of `from` can call the function `name`.
    pub(super) fn calls(&self, from: &[String], name: &[&str]) -> bool {
        self.reach([from.to_vec()]).iter().any(|path| {
            let node = self.nodes.get(path);
            node.is_some_and(|node| node.calls.iter().any(|call| call == name))
        })
    }

    /// Strings that the evaluation of `from` may give as its reason: those that stand where a
    /// reason does, then all others of a reason's form, because a policy may compute which of
    /// them it gives.
    pub(super) fn reasons(&self, from: impl IntoIterator<Item = Vec<String>>) -> Vec<&str> {
        let reached = self.reach(from);
        let nodes = || reached.iter().filter_map(|path| self.nodes.get(path));
        let given: BTreeSet<&str> =
            nodes().flat_map(|node| node.reasons.iter().map(String::as_str)).collect();
        let texts: BTreeSet<&str> =
            nodes().flat_map(|node| node.texts.iter().map(String::as_str)).collect();
        let rest: Vec<&str> = texts.difference(&given).copied().collect();
        given.into_iter().chain(rest).collect()
    }

    fn reach(&self, from: impl IntoIterator<Item = Vec<String>>) -> BTreeSet<Vec<String>> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<Vec<String>> = from.into_iter().collect();
        while let Some(path) = open.pop() {
            if let Some(node) = self.nodes.get(&path)
                && seen.insert(path)
            {
                open.extend(node.next.iter().cloned());
            }
        }
        seen
    }
}

/// The rules that a reference in `rule` may evaluate: the one that it names or lies within, or
/// all that lie under it.
fn leads_to(rule: &Rule, to: &[String], paths: &BTreeSet<Vec<String>>) -> Vec<Vec<String>> {
    let Some(root) = to.first() else { return Vec::new() };
    let absolute = if root == "data" { to.to_vec() } else { in_package(rule, to, paths) };
    let mut within = absolute.as_slice();
    while let Some((_, shorter)) = within.split_last() {
        if paths.contains(within) {
            return vec![within.to_vec()];
        }
        within = shorter;
    }
    if absolute.is_empty() {
        return Vec::new();
    }
    paths.range(absolute.clone()..).take_while(|p| p.starts_with(&absolute)).cloned().collect()
}

/// A name that belongs to the rule's own package, made absolute.
fn in_package(rule: &Rule, to: &[String], paths: &BTreeSet<Vec<String>>) -> Vec<String> {
    let package = rule.path.get(..rule.package).unwrap_or_default();
    let first = [package, to.get(..1).unwrap_or_default()].concat();
    let known = paths.range(first.clone()..).next().is_some_and(|path| path.starts_with(&first));
    if known { [package, to].concat() } else { Vec::new() }
}
