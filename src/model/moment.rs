//! A point in time as people write it in configuration: `2027-01-31T00:00:00Z` (RFC 3339).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::clock::Now;

/// A point in time, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Whether `now` lies at it or later.
    #[must_use]
    pub fn is_past(self, now: &Now) -> bool {
        now.unix_nanos >= self.0
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = chrono::DateTime::from_timestamp_nanos(self.0);
        f.write_str(&time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = chrono::DateTime::parse_from_rfc3339(&text).ok();
        time.and_then(|time| time.timestamp_nanos_opt()).map(Self).ok_or_else(|| {
            let problem = format!("`{text}` is no date with time and zone");
            serde::de::Error::custom(format!("{problem}; write for example `2027-01-31T00:00:00Z`"))
        })
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "A date with time and zone (RFC 3339), such as `2027-01-31T00:00:00Z`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_date_has_a_time_and_a_zone() {
        let read = |text: &str| serde_json::from_value::<Moment>(text.into());
        let new_year = read("2027-01-01T00:00:00Z").unwrap();
        assert_eq!(read("2027-01-01T01:00:00+01:00").unwrap(), new_year);
        assert_eq!(new_year.to_string(), "2027-01-01T00:00:00Z");
        let clock = Clock::manual(new_year.0 / 1_000_000_000 - 1);
        assert!(!new_year.is_past(&clock.now()));
        clock.advance(std::time::Duration::from_secs(1));
        assert!(new_year.is_past(&clock.now()));
        for bad in ["2027-01-01", "2027-01-01T00:00:00", "tomorrow", "", "9999-01-01T00:00:00Z"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
