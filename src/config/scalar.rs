//! What an unquoted YAML scalar means: the core schema of YAML 1.2 (section 10.3.2).

use serde_json::{Number, Value};

/// The value of the plain scalar `text`. `no`, `on`, `1_000`, `.inf` and `.nan` are text: YAML 1.2
/// has no such booleans or numbers, and JSON has no infinity.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

/// How to write the plain scalar `text` so that every reader takes it for the same number;
/// nothing where it is written so already, or is no number.
pub(super) fn ambiguous(text: &str) -> Option<String> {
    let number = number(text)?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.split(['.', 'e', 'E']).next().unwrap_or(digits);
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    let other_base = digits.starts_with("0x") || digits.starts_with("0o");
    let odd = text.starts_with('+')
        || whole.is_empty()
        || digits.ends_with('.')
        || digits.contains(['e', 'E'])
        || leading_zero;
    (other_base || odd).then(|| plain_number(&number))
}

/// `1000` rather than `1000.0`.
fn plain_number(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn number(text: &str) -> Option<Number> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if let Some(hex) = text.strip_prefix("0x") {
        // `from_str_radix` alone would take a sign.
        let plain = hex.bytes().all(|b| b.is_ascii_hexdigit());
        return plain.then(|| u64::from_str_radix(hex, 16).ok()).flatten().map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return digits(octal)
            .then(|| u64::from_str_radix(octal, 8).ok())
            .flatten()
            .map(Number::from);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits(unsigned) {
        let whole = text.strip_prefix('+').unwrap_or(text);
        if let Ok(number) = whole.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = whole.parse::<i64>() {
            return Some(number.into());
        }
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let empty_or_digits = |s: &str| s.is_empty() || digits(s);
    let well_formed = empty_or_digits(whole)
        && empty_or_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| digits(e.strip_prefix(['-', '+']).unwrap_or(e)));
    well_formed.then(|| text.parse::<f64>().ok()).flatten().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for text in ["no", "yes", "on", "off", "y", "1_000", ".inf", ".nan", "1.2.3", "+", "-", "."]
        {
            assert_eq!(resolve(text), json!(text), "{text}");
        }
        for text in ["127.0.0.1:9191", "5m", "0x", "0xg", "0o8", "1e", "e1", "+0x1", "12:30:45"] {
            assert_eq!(resolve(text), json!(text), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(resolve(text), Value::Null, "{text}");
        }
        assert_eq!(resolve("True"), json!(true));
        assert_eq!(resolve("-12"), json!(-12));
        assert_eq!(resolve("18446744073709551615"), json!(u64::MAX));
        assert_eq!(resolve("0x1F"), json!(31));
        assert_eq!(resolve("1.5"), json!(1.5));
    }

    #[test]
    fn numbers_that_readers_take_differently_are_named() {
        let cases = [("012", "12"), ("0o17", "15"), ("0x1F", "31"), ("1e3", "1000"), ("+5", "5")];
        for (text, plain) in cases {
            assert_eq!(ambiguous(text).as_deref(), Some(plain), "{text}");
        }
        for text in ["0", "-1", "12", "0.5", "1.25", "no", "abc"] {
            assert_eq!(ambiguous(text), None, "{text}");
        }
    }
}
