//! The built-in functions that policies may call, and what a call may cost.
//!
//! A call is allowed if the function is pure and the work and memory of one call are bounded by
//! the size of its arguments. Some of these are only so in a certain use (a literal pattern) or
//! multiply two sizes; those are charged to the evaluation's [`Meter`](super::meter) before they
//! run, by an upper bound of what they will produce.

use regorus::Value;

use super::meter::size;

/// How a function may be used.
pub(super) struct Allowed {
    pub(super) name: &'static str,
    /// An argument that must be a literal.
    pub(super) literal: Option<Literal>,
    /// Upper bound of work and memory in bytes, where the interpreter's own steps do not bound it.
    pub(super) cost: Option<fn(&[Value]) -> usize>,
}

/// What kind of literal, and where among the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    /// A string: what is compiled, or read as a layout, never comes from a caller.
    Text(usize),
    /// A format of `sprintf` with plain verbs: no widths, which a digit more makes unbounded.
    Format,
}

const fn free(name: &'static str) -> Allowed {
    Allowed { name, literal: None, cost: None }
}

const fn charged(name: &'static str, cost: fn(&[Value]) -> usize) -> Allowed {
    Allowed { name, literal: None, cost: Some(cost) }
}

const fn literal(name: &'static str, at: usize, cost: fn(&[Value]) -> usize) -> Allowed {
    Allowed { name, literal: Some(Literal::Text(at)), cost: Some(cost) }
}

pub(super) const NOW: &str = "time.now_ns";

/// Every function that policies may call beside the bundle's own.
pub(super) const ALLOWED: &[Allowed] = &[
    free("abs"),
    free("bits.and"),
    free("bits.negate"),
    free("bits.or"),
    free("bits.xor"),
    free("ceil"),
    free("floor"),
    free("format_int"),
    free("is_array"),
    free("is_boolean"),
    free("is_null"),
    free("is_number"),
    free("is_object"),
    free("is_set"),
    free("is_string"),
    free("max"),
    free("min"),
    free("object.get"),
    free("round"),
    free("startswith"),
    free("endswith"),
    free("type_name"),
    free("net.cidr_contains"),
    free("net.cidr_is_valid"),
    free("time.add_date"),
    free("time.clock"),
    free("time.date"),
    free("time.diff"),
    free(NOW),
    free("time.parse_duration_ns"),
    free("time.parse_rfc3339_ns"),
    free("time.weekday"),
    // Copies of what they are given, as fast as memory can be copied.
    charged("array.concat", all),
    charged("array.reverse", all),
    charged("array.slice", all),
    charged("contains", all),
    charged("count", shallow),
    charged("intersection", all),
    charged("json.filter", all),
    charged("json.is_valid", parsed),
    charged("json.marshal", written),
    charged("json.remove", all),
    charged("json.unmarshal", parsed),
    charged("lower", all),
    charged("object.filter", all),
    charged("object.keys", all),
    charged("object.remove", all),
    charged("object.subset", all),
    charged("object.union", all),
    charged("object.union_n", all),
    charged("product", digits),
    charged("sort", all),
    charged("split", parsed),
    charged("strings.count", all),
    charged("strings.reverse", all),
    charged("substring", all),
    charged("sum", all),
    charged("to_number", all),
    charged("trim_prefix", all),
    charged("trim_space", all),
    charged("trim_suffix", all),
    charged("union", all),
    charged("upper", all),
    // Their work or their result is the product of two arguments.
    charged("concat", concat),
    charged("indexof", searched),
    charged("indexof_n", searched),
    charged("replace", replace),
    charged("strings.any_prefix_match", pairs),
    charged("strings.any_suffix_match", pairs),
    charged("trim", searched),
    charged("trim_left", searched),
    charged("trim_right", searched),
    // Compiled anew on each call.
    literal("glob.match", 0, searched),
    literal("regex.is_valid", 0, all),
    literal("regex.match", 0, searched),
    literal("time.parse_ns", 0, all),
    Allowed { name: "sprintf", literal: Some(Literal::Format), cost: Some(sprintf) },
];

/// Why a function that the interpreter or OPA knows is refused.
pub(super) fn refused(name: &str) -> &'static str {
    match name {
        "http.send" | "net.lookup_ip_addr" => "it calls out of the process",
        "opa.runtime" => "it reads the process's environment",
        "print" | "trace" => "it is for debugging; use `opa eval` or `portcullis decide`",
        "numbers.range" | "numbers.range_step" | "net.cidr_expand" | "bits.lsh" => {
            "the size of its result is a number that a caller may choose"
        }
        "strings.replace_n" | "regex.replace" | "json.marshal_with_options" | "walk" => {
            "its result may be far larger than its arguments"
        }
        name if name.starts_with("rand.") || name.starts_with("uuid.") => {
            "it is random, so that a decision could be neither cached nor replayed"
        }
        name if name.starts_with("io.jwt.") || name.starts_with("crypto.") => {
            "tokens and signatures are verified before the policy runs; see `input.token`"
        }
        _ => "it is not in the list of pure, bounded functions",
    }
}

/// The entry for `name`.
pub(super) fn allowed(name: &str) -> Option<&'static Allowed> {
    ALLOWED.iter().find(|allowed| allowed.name == name)
}

/// Whether a `sprintf` format has only the verbs `%s`, `%v`, `%d` and `%%`.
pub(super) fn format_is_plain(format: &str) -> bool {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' && !matches!(chars.next(), Some('s' | 'v' | 'd' | '%')) {
            return false;
        }
    }
    true
}

fn all(args: &[Value]) -> usize {
    args.iter().map(size).fold(0, usize::saturating_add)
}

/// A text is walked, a collection knows its size.
fn shallow(args: &[Value]) -> usize {
    length(args, 0)
}

/// Each byte may become a value of its own.
fn parsed(args: &[Value]) -> usize {
    all(args).saturating_mul(32)
}

/// Escapes make six bytes of one.
fn written(args: &[Value]) -> usize {
    all(args).saturating_mul(6)
}

/// A product has as many digits as its factors together; long ones are multiplied digit by digit.
fn digits(args: &[Value]) -> usize {
    let total = all(args);
    total.saturating_mul(total / 1024 + 1)
}

fn length(args: &[Value], at: usize) -> usize {
    match args.get(at) {
        Some(Value::String(text)) => text.len(),
        _ => 0,
    }
}

/// Each position is compared with the other argument, some bytes at a time.
fn searched(args: &[Value]) -> usize {
    let longest = args.iter().map(size).max().unwrap_or(0);
    all(args).saturating_add(longest.saturating_mul(all(args) - longest) / 64)
}

fn concat(args: &[Value]) -> usize {
    let items = match args.get(1) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Set(items)) => items.len(),
        _ => 0,
    };
    all(args).saturating_add(length(args, 0).saturating_mul(items))
}

fn replace(args: &[Value]) -> usize {
    let places = length(args, 0) / length(args, 1).max(1) + 1;
    all(args).saturating_add(places.saturating_mul(length(args, 2)))
}

fn pairs(args: &[Value]) -> usize {
    let count = |at: usize| match args.get(at) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Set(items)) => items.len(),
        _ => 1,
    };
    all(args).saturating_mul(count(0).min(count(1)).max(1))
}

/// Each argument once, and a few words for each verb that has none.
fn sprintf(args: &[Value]) -> usize {
    written(args).saturating_add(length(args, 0).saturating_mul(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_8_a_cost_bounds_what_the_call_produces() {
        crate::rego::meter::start(usize::MAX / 2);
        let text = |n: usize| Value::from("x".repeat(n));
        let list = Value::from(vec![text(1); 1000]);
        assert!(concat(&[text(1000), list.clone()]) >= 999 * 1000 + 1000);
        assert!(replace(&[text(1000), text(1), text(1000)]) >= 1_000_000);
        assert!(replace(&[text(1000), text(0), text(1000)]) >= 1_000_000);
        assert!(pairs(&[list.clone(), list]) >= 1_000_000);
    }

    #[test]
    fn s6_8_a_format_has_plain_verbs_only() {
        for format in ["%s is %v", "%d", "100%% of 12345", ""] {
            assert!(format_is_plain(format), "{format}");
        }
        for format in ["%5d", "%.999f", "%0100000000d", "%*d", "%%%1d", "%", "%x", "%+v"] {
            assert!(!format_is_plain(format), "{format}");
        }
    }
}
