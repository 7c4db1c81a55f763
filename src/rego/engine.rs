//! A bundle of policies, compiled once, and the evaluation of its rules.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, Value};

use super::graph::Graph;
use super::load::{self, File};
use super::spare::{Brevity, Spare};
use super::{builtins, json, meter, negation, rules, shape};
use crate::clock::thread_cpu;
use crate::model::{Problem, Reason};

/// Steps of the interpreter between two looks at the clock; a step takes well under 1 µs.
pub(super) const CHECK_INTERVAL: NonZeroU32 = match NonZeroU32::new(64) {
    Some(steps) => steps,
    None => NonZeroU32::MIN,
};
/// What the interpreter says of a path that it does not know as a rule's.
const NO_PATH: &str = "not a valid rule path";
/// Reasons that are known at load, so that labels of metrics are bounded.
const MAX_REASONS: usize = 512;
/// Prepared engines that one shard keeps.
const KEPT: usize = 4;

/// Policies and data, loaded whole, compiled and checked.
pub struct Bundle {
    revision: Arc<str>,
    paths: BTreeSet<Vec<String>>,
    functions: BTreeSet<Vec<String>>,
    graph: Graph,
    /// The engine that the others are cloned from.
    origin: Mutex<Engine>,
    shards: Box<[Mutex<Vec<Engine>>]>,
    /// What its rules may take of threads that have other work.
    pub(super) spare: Spare,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle {}", self.revision)
    }
}

/// One rule of a bundle, known to exist.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) bundle: Arc<Bundle>,
    pub(super) path: Arc<str>,
    /// Asked for by a query, which is slower: the interpreter does not find a rule by its path
    /// whose name goes on in brackets.
    pub(super) by_query: bool,
    pub(super) brevity: Arc<Brevity>,
    /// Reads the CPU time that the calling thread has used.
    pub(super) cpu: fn() -> Duration,
}

impl Bundle {
    /// Loads policies and data from files and folders; relative paths start at `base`.
    ///
    /// # Errors
    /// What cannot be read, does not compile, calls a function that is not allowed, or recurses;
    /// each with file and line. Pointers are relative to the section that holds `paths`.
    pub fn load(paths: &[PathBuf], base: &Path) -> Result<Arc<Self>, Vec<Problem>> {
        let sources = load::read(paths, base)?;
        let revision = sources.digest.to_hex();
        Self::compile(&sources.files, revision.get(..16).unwrap_or_default())
    }

    fn compile(files: &[File], revision: &str) -> Result<Arc<Self>, Vec<Problem>> {
        let failed = |message: String| {
            vec![Problem::new("/paths", message, "mend it; `opa check --strict` says more")]
        };
        let mut engine = engine_of(files)?;
        let ast = engine.get_ast_as_json().map_err(|e| failed(e.to_string()))?;
        let modules = shape::modules(&ast).map_err(|e| failed(e.to_string()))?;
        let found = shape::rules(&modules).map_err(|e| failed(e.to_string()))?;
        let graph = Graph::new(&found);
        let problems = rules::problems(&found, &graph);
        if !problems.is_empty() {
            return Err(problems);
        }
        // What does not compile is said of the text as it was written.
        prepare(&mut engine).map_err(failed)?;
        let unclear = |problems: Vec<Problem>| -> Vec<Problem> {
            let fix = "write the operands of `not` as variables or plain references";
            problems.into_iter().map(|problem| Problem { fix: fix.to_owned(), ..problem }).collect()
        };
        let mut engine = engine_of(&with_negations(files, &modules)?).map_err(unclear)?;
        prepare(&mut engine).map_err(failed).map_err(unclear)?;
        let (functions, plain): (Vec<_>, Vec<_>) =
            found.iter().partition(|rule| rule.arity.is_some());
        let shards = std::thread::available_parallelism().map_or(4, std::num::NonZero::get) * 2;
        Ok(Arc::new(Self {
            revision: revision.into(),
            paths: plain.into_iter().map(|rule| rule.path.clone()).collect(),
            functions: functions.into_iter().map(|rule| rule.path.clone()).collect(),
            graph,
            origin: Mutex::new(engine),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            spare: Spare::new(),
        }))
    }

    /// Content hash over names and contents of all files, 16 hexadecimal characters.
    #[must_use]
    pub fn revision(&self) -> &Arc<str> {
        &self.revision
    }

    /// The strings that the rules at `paths` may give as their reasons, as far as they are
    /// literals anywhere in what these rules reach, 512 of them at most. Strings that
    /// stand where a reason does (a member `reason`, a rule named so) come first. There are more
    /// than are ever given, since a policy may compute its reason; each has a reason's form.
    #[must_use]
    pub fn reasons<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Vec<Arc<str>> {
        let from = paths.into_iter().map(|path| path.split('.').map(str::to_owned).collect());
        let found = self.graph.reasons(from).into_iter();
        let fits = found.filter(|text| Reason::from_policy(text).is_some());
        fits.take(MAX_REASONS).map(Arc::from).collect()
    }

    /// The rule at `path`, such as `data.acme.authz.decision`.
    ///
    /// # Errors
    /// There is no such rule, or it reads the time and `reads_time` does not say so. The
    /// problem's pointer is empty.
    pub fn rule(self: &Arc<Self>, path: &str, reads_time: bool) -> Result<Rule, Problem> {
        let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
        if !self.paths.contains(&parts) {
            let message = if self.functions.contains(&parts) {
                format!("`{path}` is a function, not a rule")
            } else {
                format!("no policy defines the rule `{path}`")
            };
            let package = parts.get(..parts.len().saturating_sub(1)).unwrap_or_default();
            let near: Vec<String> = self
                .paths
                .iter()
                .filter(|p| p.starts_with(package))
                .take(5)
                .map(|p| format!("`{}`", p.join(".")))
                .collect();
            let fix = if near.is_empty() || package.len() < 2 {
                "write the whole path, `data.<package>.<rule>`, of a rule in `paths`".to_owned()
            } else {
                format!("write one of {}", near.join(", "))
            };
            return Err(Problem::new("", message, fix));
        }
        let now: Vec<&str> = builtins::NOW.split('.').collect();
        if !reads_time && self.graph.calls(&parts, &now) {
            return Err(Problem::new(
                "",
                format!("`{path}` reaches a call of `{}`", builtins::NOW),
                "use `input.context.time_ns` and set `reads_time: true`",
            ));
        }
        let mut engine = self.take();
        engine.set_execution_timer_config(ExecutionTimerConfig {
            limit: Duration::ZERO,
            check_interval: CHECK_INTERVAL,
        });
        meter::start(0);
        let tried = engine.eval_rule(path.to_owned());
        let by_query = tried.is_err_and(|error| error.to_string().contains(NO_PATH));
        let (bundle, brevity) = (Arc::clone(self), Arc::default());
        Ok(Rule { bundle, path: path.into(), by_query, brevity, cpu: thread_cpu })
    }

    /// A prepared engine: one that this core used before, or a clone of the first. The locks
    /// are held for a push or a pop, and each thread has a shard that it tries first.
    pub(super) fn take(&self) -> Engine {
        let kept = self.shard().lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.origin.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(super) fn give_back(&self, engine: Engine) {
        let mut kept = self.shard().lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(engine);
        }
    }

    fn shard(&self) -> &Mutex<Vec<Engine>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        let mine = MINE.with(|mine| *mine);
        self.shards.get(mine % self.shards.len().max(1)).unwrap_or_else(|| Self::spare())
    }

    /// Never used: a bundle always has shards.
    fn spare() -> &'static Mutex<Vec<Engine>> {
        static SPARE: Mutex<Vec<Engine>> = Mutex::new(Vec::new());
        &SPARE
    }
}

impl Rule {
    /// The bundle that it belongs to.
    #[must_use]
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Its path, such as `data.acme.authz.decision`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// An engine that holds `files`.
fn engine_of(files: &[File]) -> Result<Engine, Vec<Problem>> {
    let mut engine = Engine::new();
    // As OPA: an error of a built-in is undefined.
    engine.set_strict_builtin_errors(false);
    let fix = "mend it; `opa check --strict` says more";
    let failed = |message: String| Problem::new("/paths", message, fix);
    meter::install(&mut engine).map_err(|e| vec![failed(e.to_string())])?;
    let problems: Vec<Problem> =
        files.iter().filter_map(|file| add(&mut engine, file).err()).map(failed).collect();
    if problems.is_empty() { Ok(engine) } else { Err(problems) }
}

/// The files with every `not` as OPA means it.
fn with_negations(files: &[File], modules: &[shape::Module]) -> Result<Vec<File>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut guarded = files.to_vec();
    for module in modules {
        let (name, text) = (&module.source.file, &module.source.contents);
        match negation::guarded(&module.ast, text) {
            Ok(text) => guarded
                .iter_mut()
                .filter(|file| file.name == *name)
                .for_each(|file| file.text.clone_from(&text)),
            Err((line, why)) => {
                problems.push(Problem::new(
                    "/paths",
                    format!("{name}:{line}: {why}"),
                    "rewrite it",
                ));
            }
        }
    }
    if problems.is_empty() { Ok(guarded) } else { Err(problems) }
}

fn add(engine: &mut Engine, file: &File) -> Result<(), String> {
    let Some(at) = &file.at else {
        let added = engine.add_policy(file.name.clone(), file.text.clone());
        return added.map(drop).map_err(|e| brief(&e.to_string()));
    };
    let document = json::parse(&file.text).map_err(|e| format!("{}: {e}", file.name))?;
    if !matches!(document, Value::Object(_)) {
        return Err(format!("{}: a data document must be an object", file.name));
    }
    let rooted = at.iter().rev().fold(document, |inner, name| {
        Value::from(std::collections::BTreeMap::from([(Value::from(name.as_str()), inner)]))
    });
    engine.add_data(rooted).map_err(|e| format!("{}: {e}", file.name))
}

/// The interpreter draws the place below its message; one line is enough.
fn brief(message: &str) -> String {
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let place = lines.clone().find_map(|line| line.strip_prefix("--> "));
    let said = lines.find_map(|line| line.strip_prefix("error: "));
    match (place, said) {
        (Some(place), Some(said)) => format!("{place}: {said}"),
        _ => message.trim().to_owned(),
    }
}

/// Compiles now, so that the first Check finds it done and every error shows at load.
fn prepare(engine: &mut Engine) -> Result<(), String> {
    match engine.eval_query("true".to_owned(), false) {
        Ok(_) => Ok(()),
        Err(error) => Err(brief(&error.to_string())),
    }
}
