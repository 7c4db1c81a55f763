//! Limits of time, memory and stack.

use std::fmt::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;
use crate::clock::thread_cpu;

/// About ten seconds of work, in nested loops over the input.
const SLOW: &str = "package a
x := count([1 | some a in input.l; some b in input.l; some c in input.l; a + b + c > 0])";

fn numbers(n: usize) -> String {
    let list: Vec<String> = (0..n).map(|n| n.to_string()).collect();
    format!("{{\"l\":[{}]}}", list.join(","))
}

#[test]
fn s6_8_a_ten_second_policy_is_cut_at_its_limit() {
    let rule = bundle(SLOW).unwrap().rule("data.a.x", false).unwrap();
    let limits = Limits { time: Duration::from_millis(50), ..LIMITS };
    let input = numbers(400);
    let (started, used) = (Instant::now(), thread_cpu());
    let outcome = unstarved(|| rule.eval(&input, limits));
    assert!(matches!(outcome, Err(EvalError::Time)), "{outcome:?}");
    let (took, used) = (started.elapsed(), thread_cpu().saturating_sub(used));
    assert!(used > limits.time && took < Duration::from_secs(5), "{used:?} of {took:?}");
    // The engine serves the next evaluation.
    assert_eq!(unstarved(|| rule.eval(&numbers(3), limits)).unwrap().unwrap(), 26);
}

#[test]
fn s6_8_a_thread_with_other_work_evaluates_only_what_is_brief() {
    let rule = bundle(SLOW).unwrap().rule("data.a.x", false).unwrap();
    let here = |n: usize| {
        // Its turn comes, however much was evaluated before.
        std::thread::sleep(Duration::from_millis(10));
        rule.eval_here(&numbers(n), LIMITS).map(Result::unwrap)
    };
    assert_eq!(here(3), None, "the thread has no room");
    crate::rego::has_room();
    let brief = (0..100).find_map(|_| here(3));
    assert_eq!(brief, Some(Some(26.into())));
    let started = Instant::now();
    assert_eq!(here(400), None);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(here(3), None, "a rule that took long is not tried");
    assert_eq!(unstarved(|| rule.eval(&numbers(3), LIMITS)).unwrap().unwrap(), 26);
}

#[test]
fn s6_8_a_thread_with_other_work_keeps_time_for_it() {
    let rule = bundle("package a\nx := 1").unwrap().rule("data.a.x", false).unwrap();
    crate::rego::has_room();
    let refused = (0..100_000).any(|_| rule.eval_here("{}", LIMITS).is_none());
    assert!(refused, "it had all of the thread's time");
}

/// Tries again what the machine had no time for.
fn unstarved<T>(mut eval: impl FnMut() -> Result<T, EvalError>) -> Result<T, EvalError> {
    loop {
        match eval() {
            Err(EvalError::Starved) => {}
            outcome => return outcome,
        }
    }
}

/// A thread that gets a hundredth of a processor.
fn hardly() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed() / 100
}

#[test]
fn s6_8_an_evaluation_that_other_threads_hold_up_is_not_cut_by_elapsed_time() {
    let rule = bundle(SLOW).unwrap().rule("data.a.x", false).unwrap();
    let rule = rule.measured_by(hardly);
    let input = numbers(40);
    let limits = Limits { time: Duration::from_mins(10), ..LIMITS };
    loop {
        let started = Instant::now();
        assert_eq!(rule.eval(&input, limits).unwrap().unwrap(), 40 * 40 * 40 - 1);
        // Its first windows end long before it does.
        let limits = Limits { time: started.elapsed() / 4, ..LIMITS };
        match rule.eval(&input, limits) {
            Ok(value) => {
                assert_eq!(value.unwrap(), 40 * 40 * 40 - 1);
                break;
            }
            // This time the machine itself stalled.
            Err(error) => assert!(matches!(error, EvalError::Starved), "{error}"),
        }
    }
}

#[test]
fn s6_8_real_threads_that_take_the_processors_cause_no_denial() {
    let rule = bundle(SLOW).unwrap().rule("data.a.x", false).unwrap();
    // Long enough that a moment for which the machine itself stalls is not four times as much.
    let input = numbers(24);
    let used = thread_cpu();
    rule.eval(&input, LIMITS).unwrap();
    // More than it takes: the spinning threads have the caches, too.
    let limits = Limits { time: thread_cpu().saturating_sub(used) * 4, ..LIMITS };
    let stop = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores * 8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..10 {
            let outcome = rule.eval(&input, limits);
            let fine = matches!(outcome, Ok(_) | Err(EvalError::Starved));
            stop.fetch_or(!fine, Ordering::Relaxed);
            assert!(fine, "{outcome:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn s6_8_one_that_gets_no_processor_is_given_up_and_not_denied() {
    let rule = bundle(SLOW).unwrap().rule("data.a.x", false).unwrap();
    let rule = rule.measured_by(|| Duration::ZERO);
    let limits = Limits { time: Duration::from_millis(5), ..LIMITS };
    let started = Instant::now();
    let outcome = rule.eval(&numbers(400), limits);
    assert!(matches!(outcome, Err(EvalError::Starved)), "{outcome:?}");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn s6_8_an_answer_that_took_more_cpu_time_than_it_may_is_none() {
    // A clock that runs ahead: each look at it is a second later.
    fn ahead() -> Duration {
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        Duration::from_secs(LOOKS.fetch_add(1, Ordering::SeqCst).into())
    }
    let rule = bundle("package a\nx := 1").unwrap().rule("data.a.x", false).unwrap();
    let limits = Limits { time: Duration::from_millis(900), ..LIMITS };
    let outcome = rule.measured_by(ahead).eval("{}", limits);
    assert!(matches!(outcome, Err(EvalError::Time)), "{outcome:?}");
}

#[test]
fn s6_8_a_limit_reached_inside_a_function_is_never_taken_for_undefined() {
    // The slow body is one of two, and its failure is negated.
    let policy = "package a
slow(l) := true if count([1 | some a in l; some b in l; some c in l; a + b + c > 0]) > 0
slow(l) := true if count(l) < 0
x if not slow(input.l)";
    let limits = Limits { time: Duration::from_millis(20), ..LIMITS };
    let outcome = unstarved(|| eval_within(policy, &numbers(400), limits));
    assert!(matches!(outcome, Err(EvalError::Time)), "{outcome:?}");
    let policy = "package a
large(s, l) := true if concat(s, l) == \"\"
large(s, l) := true if count(l) > 0
x if not large(input.s, input.l)
y if large(input.s, input.l)";
    let list = vec!["a"; 20_000];
    let input = serde_json::json!({"s": "b".repeat(20_000), "l": list}).to_string();
    let limits = Limits { memory: 16 << 20, ..LIMITS };
    assert!(matches!(eval_within(policy, &input, limits), Err(EvalError::Memory)));
    let rule = bundle(policy).unwrap().rule("data.a.y", false).unwrap();
    assert!(matches!(rule.eval(&input, limits), Err(EvalError::Memory)));
}

#[test]
fn s6_8_one_built_in_cannot_take_the_memory_or_the_time() {
    let a = "a".repeat(100_000);
    let list: Vec<&str> = vec!["a"; 50_000];
    let input = serde_json::json!({
        "a": a, "b": format!("{}b", "a".repeat(50_000)), "l": list, "n": 1_000_000_000,
        "e": "1e999999999", "o": {"$serde_json::private::Number": "1e999999999"},
    })
    .to_string();
    for call in [
        "count(concat(input.a, input.l))",
        "count(replace(input.a, \"a\", input.a))",
        "count(replace(input.a, \"\", input.a))",
        "indexof(input.a, input.b)",
        "strings.any_prefix_match(input.l, input.l)",
        "count(concat(\"\", [input.a | some y in input.l]))",
        "[lower(input.a) | some y in input.l]",
    ] {
        let started = Instant::now();
        let limits = Limits { time: Duration::from_millis(500), memory: 64 << 20 };
        let policy = format!("package a\nx := {call}");
        let outcome = unstarved(|| eval_within(&policy, &input, limits));
        assert!(matches!(outcome, Err(EvalError::Memory | EvalError::Time)), "{call}: {outcome:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "{call}: {:?}", started.elapsed());
    }
    for call in ["to_number(input.e)", "json.unmarshal(input.e)", "json.unmarshal(\"1e999999999\")"]
    {
        let started = Instant::now();
        assert!(eval(&format!("package a\nx := {call}"), &input).unwrap().is_none(), "{call}");
        assert!(started.elapsed() < Duration::from_secs(2), "{call}");
    }
}

#[test]
fn s6_8_a_result_that_is_huge_written_out_is_refused() {
    let mut policy = "package a\nv0 := [\"x\"]\n".to_owned();
    for n in 1..40 {
        writeln!(policy, "v{n} := [v{0}, v{0}]", n - 1).unwrap();
    }
    policy += "x := v39";
    assert!(matches!(eval(&policy, "{}"), Err(EvalError::Memory)));
    assert!(matches!(
        eval(&format!("{policy}\ny := json.marshal(x)"), "{}"),
        Err(EvalError::Memory)
    ));
}

#[test]
fn s6_8_input_beyond_the_limits_is_refused_before_it_is_read() {
    let large = format!("\"{}\"", "a".repeat(1 << 20));
    let limits = Limits { memory: 1 << 20, ..LIMITS };
    assert!(matches!(eval_within("package a\nx := 1", &large, limits), Err(EvalError::Memory)));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for input in [deep.as_str(), "{", "", "{\"n\":1e999999999}"] {
        assert!(matches!(eval("package a\nx := 1", input), Err(EvalError::Input(_))));
    }
}

#[test]
fn s6_8_recursion_is_refused_at_load() {
    for body in [
        "f(y) := f(y - 1)\nx := f(1)",
        "f(y) := g(y)\ng(y) := [z | z := f(y)]\nx := f(1)",
        "x := y\ny := x",
        "f(y) := data.a.f(y)\nx := 1",
    ] {
        assert!(refusal(&format!("package a\n{body}")).contains("depends on itself"), "{body}");
    }
    // A local variable that has a rule's name is no recursion.
    let policy = "package a\nuser := name(input.u)\nname(user) := user.n\nx := user";
    assert_eq!(eval(policy, r#"{"u":{"n":5}}"#).unwrap().unwrap(), 5);
}

/// Rules that each call the next one within nested calls and a comprehension.
fn chain(rules: usize, nesting: usize) -> String {
    let mut policy = "package a\nv0 := input.n\n".to_owned();
    for n in 1..=rules {
        let (open, close) = ("abs(".repeat(nesting), ")".repeat(nesting));
        writeln!(policy, "v{n} := [w | w := {open}v{}{close}][0]", n - 1).unwrap();
    }
    policy + &format!("x := v{rules}")
}

#[test]
fn s6_8_the_deepest_chain_that_is_accepted_fits_the_smallest_stack() {
    let message = refusal(&chain(300, 1));
    assert!(message.contains("nest deeper"), "{message}");
    for nesting in [0, 1, 5, 20] {
        let (mut fits, mut fails) = (1, 200);
        while fits + 1 < fails {
            let middle = usize::midpoint(fits, fails);
            let fit = bundle(&chain(middle, nesting)).is_ok();
            (fits, fails) = if fit { (middle, fails) } else { (fits, middle) };
        }
        let policy = chain(fits, nesting);
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let run = move || eval(&policy, r#"{"n":7}"#).unwrap().unwrap();
        assert_eq!(thread.spawn(run).unwrap().join().unwrap(), 7, "{fits} × {nesting}");
    }
}

#[test]
fn evaluations_on_many_threads_share_nothing() {
    let rule = bundle("package a\nx := input.n * 2").unwrap().rule("data.a.x", false).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let rule = rule.clone();
            std::thread::spawn(move || {
                for i in 0..200 {
                    let value = rule.eval(&format!("{{\"n\":{}}}", n * 1000 + i), LIMITS);
                    assert_eq!(value.unwrap().unwrap(), (n * 1000 + i) * 2);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
