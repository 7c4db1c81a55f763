//! Inputs for the water-data policies, made from a seed: most are one step from being allowed,
//! so that each condition of each rule decides some of them.

use serde_json::{Map, Value, json};

pub(super) const OFFICES: [&str; 9] =
    ["SPK", "SWT", "SPL", "SPN", "FTW", "GAL", "MVR", "HQ", "XYZ"];
pub(super) const ROLES: [&str; 9] = [
    "dam_operator",
    "water_manager",
    "data_manager",
    "automated_collector",
    "automated_processor",
    "external_cooperator",
    "Viewer Users",
    "system_admin",
    "hec_employee",
];
const RESOURCES: [&str; 17] = [
    "timeseries",
    "timeseries",
    "timeseries",
    "measurements",
    "levels",
    "gates",
    "locations",
    "forecasts",
    "models",
    "scenarios",
    "ratings",
    "catalogs",
    "offices",
    "units",
    "health",
    "metrics",
    "zzz",
];
const ACTIONS: [&str; 6] = ["read", "read", "create", "update", "delete", "unknown"];
const ZONES: [&str; 6] = [
    "America/Los_Angeles",
    "America/Chicago",
    "America/New_York",
    "Asia/Kathmandu",
    "UTC",
    "No/Where",
];
const GROUPS: [&str; 3] = ["A", "B", "C"];
const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;

/// The generator `SplitMix64`: small, and the same everywhere.
pub(crate) struct Generator(u64);

/// Members of an object in the making.
pub(super) type Members = Map<String, Value>;

pub(super) fn set(members: &mut Members, name: &str, value: impl Into<Value>) {
    members.insert(name.to_owned(), value.into());
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high - low + 1).unwrap();
        low + i64::try_from(self.next() % width).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Up to `most` different ones.
    pub(super) fn some(&mut self, of: &[&'static str], most: usize) -> Vec<&'static str> {
        let mut taken: Vec<&str> = (0..self.below(most + 1)).map(|_| self.pick(of)).collect();
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// A moment of 2025 to 2027, often close to a full quarter of an hour or a change of clocks.
    fn now(&mut self) -> i64 {
        let start = 1_735_689_600;
        let secs = match self.below(10) {
            0 => 1_772_964_000 + self.between(-400, 400),
            1..=5 => start + self.between(0, 100_000) * 900 + self.between(-310, 310),
            _ => start + self.between(0, 94_000_000),
        };
        secs * SECOND + self.pick(&[0, 1, 999_999_999, 500_000_000])
    }

    /// A document that the policy may see.
    pub(super) fn question(&mut self) -> Value {
        let now = self.now();
        // Time matters to these more than to others.
        let timely = self.pick(&["dam_operator", "external_cooperator"]);
        let role = if self.chance(40) { timely } else { self.pick(&ROLES) };
        let anonymous = self.chance(10);
        let user = if anonymous { None } else { Some(self.user(role, now)) };
        let mut input = Members::new();
        let method = match role {
            "automated_collector" => self.pick(&["api_key", "api_key", "jwt"]),
            _ => self.pick(&["jwt", "jwt", "session"]),
        };
        let identity = match (anonymous, self.chance(1)) {
            (true, _) => json!({"method": "none"}),
            (_, true) => json!({}),
            _ => json!({"issuer": "https://idp.example.test", "subject": "s", "method": method}),
        };
        let (mut action, mut resource) = (self.pick(&ACTIONS), self.pick(&RESOURCES));
        if self.chance(70) {
            (action, resource) = self.usual(if anonymous { "public" } else { role });
        }
        let context = self.context(role, user.as_ref(), action, now);
        set(&mut input, "identity", identity);
        set(&mut input, "action", action);
        set(&mut input, "resource", resource);
        set(&mut input, "context", context);
        if let Some(user) = user {
            set(&mut input, "user", user);
        }
        Value::Object(input)
    }

    /// What that role is for.
    fn usual(&mut self, role: &str) -> (&'static str, &'static str) {
        let of: &[(&str, &str)] = match role {
            "public" => &[
                ("read", "offices"),
                ("read", "locations"),
                ("read", "timeseries"),
                ("read", "health"),
            ],
            "dam_operator" => &[
                ("read", "gates"),
                ("read", "levels"),
                ("create", "timeseries"),
                ("create", "measurements"),
                ("update", "timeseries"),
                ("update", "measurements"),
            ],
            "water_manager" => &[
                ("read", "forecasts"),
                ("create", "models"),
                ("update", "scenarios"),
                ("read", "ratings"),
            ],
            "data_manager" => &[
                ("read", "catalogs"),
                ("update", "ratings"),
                ("create", "levels"),
                ("delete", "catalogs"),
                ("delete", "timeseries"),
            ],
            "automated_collector" => &[("create", "timeseries")],
            "automated_processor" => {
                &[("read", "timeseries"), ("create", "timeseries"), ("update", "timeseries")]
            }
            "external_cooperator" => {
                &[("read", "timeseries"), ("read", "timeseries"), ("create", "timeseries")]
            }
            "Viewer Users" => &[
                ("read", "levels"),
                ("read", "locations"),
                ("read", "units"),
                ("read", "timeseries"),
            ],
            _ => &[("delete", "zzz"), ("read", "timeseries"), ("update", "levels")],
        };
        self.pick(of)
    }

    fn user(&mut self, role: &'static str, now: i64) -> Value {
        let mut user = Members::new();
        if !self.chance(2) {
            set(&mut user, "id", self.pick(&["s", "ann", "Mo"]));
        }
        let mut offices = self.some(&OFFICES, 3);
        if self.chance(2) {
            offices.push("*");
        }
        let mut roles = vec![role];
        if self.chance(30) {
            roles.extend(self.some(&ROLES[..7], 2));
        }
        if self.chance(20) {
            roles.push("CWMS Users");
        }
        if self.chance(35) {
            let mut held = Members::new();
            for office in &offices {
                let here: Vec<&str> = roles.iter().copied().filter(|_| self.chance(70)).collect();
                set(&mut held, office, here);
            }
            set(&mut user, "office_roles", held);
        }
        if !self.chance(3) {
            set(&mut user, "roles", roles);
        }
        if !self.chance(3) {
            set(&mut user, "offices", offices);
        }
        self.particulars(role, now, &mut user);
        Value::Object(user)
    }

    fn particulars(&mut self, role: &str, now: i64, user: &mut Members) {
        if self.chance(60) {
            let own = self.chance(80);
            let persona = if own { role } else { self.pick(&ROLES) };
            set(user, "persona", persona);
        }
        if self.chance(50) {
            let region = self.pick(&["southwestern", "south_pacific", "mississippi", "nowhere"]);
            set(user, "region", region);
        }
        for (name, value) in
            [("username", "ann"), ("email", "a@example.test"), ("primary_office", "SPK")]
        {
            if self.chance(40) {
                set(user, name, value);
            }
        }
        if role == "dam_operator" || self.chance(5) {
            if self.chance(85) {
                set(user, "timezone", self.pick(&ZONES));
            }
            let (start, end) = (self.between(0, 12), self.between(12, 24));
            set(user, "shift_start", self.pick(&[0, 0, start]));
            set(user, "shift_end", self.pick(&[24, 24, end]));
            if self.chance(5) {
                set(user, "shift_end", "24");
            }
        }
        if role == "external_cooperator" || self.chance(5) {
            set(user, "allowed_parameters", self.some(&["Stage", "Flow", "Elev"], 9));
            let near = now + self.between(-400, 400) * SECOND;
            set(user, "partnership_expiry_ns", self.pick(&[near, near, now + 9 * HOUR]));
            if self.chance(5) {
                set(user, "partnership_expiry_ns", "2099-01-01T00:00:00Z");
            }
            if self.chance(5) {
                user.remove("partnership_expiry_ns");
            }
        }
        if self.chance(40) {
            set(user, "ts_privileges", self.privileges());
        }
    }

    fn privileges(&mut self) -> Value {
        let entry = |generator: &mut Self| {
            let mut entry = Members::new();
            set(&mut entry, "ts_group_code", generator.between(1, 9));
            set(&mut entry, "ts_group_id", generator.pick(&GROUPS));
            set(&mut entry, "privilege", generator.pick(&["read", "write", "read-write"]));
            let hours = generator.between(0, 200);
            let hours = [json!(0), json!(hours), json!(168), json!(1.5), json!(72)]
                [generator.below(5)]
            .clone();
            if !generator.chance(10) {
                set(&mut entry, "embargo_hours", hours);
            }
            Value::Object(entry)
        };
        (0..self.below(4)).map(|_| entry(self)).collect()
    }

    fn context(&mut self, role: &str, user: Option<&Value>, action: &str, now: i64) -> Value {
        let mut context = Members::new();
        set(&mut context, "time_ns", now);
        set(&mut context, "method", "GET");
        let own = user.and_then(|user| user["offices"].as_array()).filter(|own| !own.is_empty());
        match (own, self.below(10)) {
            (Some(own), 0..=6) => {
                set(&mut context, "office_id", own[self.below(own.len())].clone());
            }
            (_, 7) | (Some(_), 8) => set(&mut context, "office_id", self.pick(&OFFICES)),
            (_, 9) if self.chance(20) => set(&mut context, "office_id", "*"),
            _ => {}
        }
        let classes = ["public", "public", "internal", "restricted", "sensitive", "secret"];
        let asks = user.is_none() || role == "external_cooperator";
        if self.chance(if asks { 85 } else { 15 }) {
            let class = self.pick(&classes);
            set(&mut context, "classification", if self.chance(40) { "public" } else { class });
        }
        if role == "external_cooperator" || self.chance(10) {
            set(&mut context, "parameter", self.pick(&["Stage", "Flow", "Elev"]));
        }
        let source = match role {
            "dam_operator" => "MANUAL",
            "automated_processor" if action != "read" => "CALCULATED",
            _ => "AUTOMATED",
        };
        if self.chance(85) {
            let any = self.pick(&["MANUAL", "AUTOMATED", "CALCULATED"]);
            set(&mut context, "data_source", if self.chance(85) { source } else { any });
        }
        self.evidence(now, &mut context);
        Value::Object(context)
    }

    fn evidence(&mut self, now: i64, context: &mut Members) {
        if self.chance(35) {
            set(context, "ts_group_id", self.pick(&["A", "B", "C", "D"]));
        }
        if self.chance(40) {
            let hours = self.pick(&[0, 1, 72, 168, 168, 200, 1000]);
            let around = self.between(-400, 400) * SECOND;
            set(context, "timestamp_ns", now - hours * HOUR + around);
        }
        if self.chance(70) {
            let hours = self.pick(&[0, 1, 24, 24, 48]);
            set(context, "created_ns", now - hours * HOUR + self.between(-400, 400) * SECOND);
        }
        if self.chance(70) {
            set(context, "calculation_metadata", json!({"method": "sum"}));
        }
        if self.chance(70) {
            set(
                context,
                "approval_status",
                self.pick(&["approved", "approved", "approved", "pending"]),
            );
        }
        if self.chance(80) {
            set(context, "approver_id", self.pick(&["z", "z", "S", "ANN", "mo", ""]));
        }
    }
}
