//! Durations and sizes as people write them in configuration: `250ms`, `5m`, `64KiB`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration with a unit: a whole number followed by `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

/// A size in bytes with a unit: a whole number followed by `B`, `KiB`, `MiB` or `GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanSize(pub u64);

/// Text that is not a number followed by one of the known units.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a whole number with a unit; write for example {example}")]
pub struct UnitError {
    text: String,
    example: &'static str,
}

const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 4] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn write(amount: u64, units: &[(&str, u64)]) -> String {
    let best = units.iter().rev().find(|(_, factor)| amount != 0 && amount.is_multiple_of(*factor));
    let (unit, factor) = best.or(units.first()).copied().unwrap_or(("", 1));
    format!("{}{unit}", amount / factor)
}

impl FromStr for HumanDuration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &DURATION_UNITS).map(|ms| Self(Duration::from_millis(ms))).ok_or_else(|| {
            UnitError { text: text.to_owned(), example: "`250ms`, `30s`, `5m`, `24h` or `7d`" }
        })
    }
}

impl FromStr for HumanSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &SIZE_UNITS).map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            example: "`512B`, `64KiB` or `16MiB`",
        })
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &DURATION_UNITS))
    }
}

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self.0, &SIZE_UNITS))
    }
}

impl HumanDuration {
    /// A whole number of milliseconds.
    #[must_use]
    pub const fn millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// A whole number of seconds.
    #[must_use]
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl HumanSize {
    /// The size as an index type; saturates where `usize` is smaller.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

macro_rules! as_text {
    ($type:ident, $name:literal, $pattern:literal, $about:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $about })
            }
        }
    };
}

as_text!(
    HumanDuration,
    "Duration",
    "^[0-9]+(ms|s|m|h|d)$",
    "A whole number with a unit: ms, s, m, h or d."
);
as_text!(
    HumanSize,
    "Size",
    "^[0-9]+(B|KiB|MiB|GiB)$",
    "A whole number of bytes with a unit: B, KiB, MiB or GiB."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_round_trip_with_units() {
        for text in ["250ms", "90s", "5m", "36h", "7d", "0ms"] {
            assert_eq!(text.parse::<HumanDuration>().unwrap().to_string(), text);
        }
        for text in ["0B", "512B", "64KiB", "16MiB", "1GiB"] {
            assert_eq!(text.parse::<HumanSize>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_has_no_unit_or_overflows_is_refused() {
        for text in ["", "5", "ms", "-1s", "1.5s", "5 m", "99999999999999999999d", "5µs", "€"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
        for text in ["", "5", "KiB", "1kb", "18446744073709551615GiB"] {
            assert!(text.parse::<HumanSize>().is_err(), "{text}");
        }
    }
}
