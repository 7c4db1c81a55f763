package cwms.authz_test

import data.cwms.authz

later(asked, ns) := json.patch(asked, [{"op": "replace", "path": "/context/time_ns", "value": asked.context.time_ns + ns}])

without_ttl(made) := object.remove(made, ["ttl"])

# An answer equals a fresh one at every moment of its life, and where its life ends early another
# answer follows within the second.
lives_exactly(asked, ttl) if {
	made := answer(asked)
	made.ttl == ttl
	every s in [s | some s in numbers.range(0, 300); s < ttl] {
		without_ttl(answer(later(asked, (s * second) + 999999999))) == without_ttl(made)
	}
	turns(asked, made, ttl)
}

turns(_, _, 300)

turns(asked, made, ttl) if {
	ttl < 300
	without_ttl(answer(later(asked, (ttl + 1) * second))) != without_ttl(made)
}

at_moment(asked, ns) := json.patch(asked, [{"op": "replace", "path": "/context/time_ns", "value": ns}])

write := question(operator, "create", "timeseries", {"office_id": "SPK", "data_source": "MANUAL"})

# 18:00 in Sacramento on that day.
shift_end := 1764554400000000000

test_a_shift_ends if {
	lives_exactly(at_moment(write, shift_end - (600 * second)), 300)
	lives_exactly(at_moment(write, shift_end - (300 * second)), 300)
	lives_exactly(at_moment(write, shift_end - (299 * second)), 299)
	lives_exactly(at_moment(write, (shift_end - (17 * second)) + 1), 16)
	lives_exactly(at_moment(write, shift_end - 1), 0)
	denied(answer(at_moment(write, shift_end)), "shift_over")
}

test_a_shift_begins if {
	start := shift_end - (12 * hour)
	lives_exactly(at_moment(write, start - (120 * second)), 120)
	denied(answer(at_moment(write, start - 1)), "shift_over")
	allowed(answer(at_moment(write, start)), "dam_operator")
}

# 2026-03-08: at 02:00 in Sacramento it becomes 03:00, so a shift that ends at 3 ends an hour early.
test_a_shift_ends_by_a_change_of_the_clock if {
	change := 1772964000000000000
	asked := json.patch(at_moment(write, change - (100 * second)), [
		{"op": "replace", "path": "/user/shift_start", "value": 0},
		{"op": "replace", "path": "/user/shift_end", "value": 3},
	])
	lives_exactly(asked, 100)
}

test_a_shift_of_the_whole_day_does_not_end if {
	midnight := shift_end + (6 * hour)
	asked := json.patch(at_moment(write, midnight - (100 * second)), [
		{"op": "replace", "path": "/user/shift_start", "value": 0},
		{"op": "replace", "path": "/user/shift_end", "value": 24},
	])
	lives_exactly(asked, 300)
}

test_the_offices_time_zone_serves_an_operator_without_one if {
	person := object.remove(operator, ["timezone"])
	allowed(ask(person, "create", "timeseries", {"office_id": "SPK", "data_source": "MANUAL"}), "dam_operator")
	early := object.union(person, {"shift_end": 7})
	denied(ask(early, "create", "timeseries", {"office_id": "SPK", "data_source": "MANUAL"}), "shift_over")
	elsewhere := object.union(person, {"offices": ["XYZ"]})
	denied(ask(elsewhere, "create", "timeseries", {"office_id": "XYZ", "data_source": "MANUAL"}), "shift_unknown")
}

published(ns) := unknown("read", "timeseries", {"classification": "public", "timestamp_ns": (at - (168 * hour)) + ns})

test_an_embargo_ends if {
	lives_exactly(published(250 * second), 250)
	lives_exactly(published(0), 0)
	allowed(answer(published(-1)), "public")
	lives_exactly(published(hour), 300)
}

member := object.union(viewer, {"ts_privileges": [
	{"ts_group_id": "A", "embargo_hours": 24},
	{"ts_group_id": "B", "embargo_hours": 0},
	{"ts_group_id": "C", "embargo_hours": 1.5},
]})

grouped(group, age) := question(
	member, "read", "levels",
	object.union({"office_id": "SPL", "timestamp_ns": at - age}, group),
)

test_an_embargo_is_the_named_groups if {
	lives_exactly(grouped({"ts_group_id": "A"}, (24 * hour) - (30 * second)), 30)
	lives_exactly(grouped({"ts_group_id": "C"}, (hour + (1800 * second)) - (30 * second)), 30)
	allowed(answer(grouped({"ts_group_id": "B"}, 0)), "viewer_users")

	# An unknown group has 168 hours; without a group the longest of his counts.
	lives_exactly(grouped({"ts_group_id": "Z"}, (168 * hour) - (30 * second)), 30)
	lives_exactly(grouped({}, (24 * hour) - (30 * second)), 30)
	lives_exactly(grouped({"ts_group_id": "A"}, 25 * hour), 300)
}

test_no_embargo_for_the_exempt if {
	both := object.union(planner, {"roles": ["Viewer Users", "water_manager"]})
	allowed(ask(both, "read", "levels", {"office_id": "SWT", "ts_group_id": "A", "timestamp_ns": at}), "water_manager")
	authz.embargo.ok with input as question(both, "read", "levels", {"office_id": "SWT", "timestamp_ns": at})
}

test_a_record_grows_too_old if {
	asked := question(operator, "update", "timeseries", {
		"office_id": "SPK",
		"data_source": "MANUAL",
		"created_ns": (at - (24 * hour)) + (200 * second),
	})
	lives_exactly(asked, 200)
	denied(answer(later(asked, 200 * second)), "record_too_old")
}

test_of_two_ends_the_first_counts if {
	shift_ends := object.union(operator, {"shift_end": 8})
	asked := at_moment(
		question(shift_ends, "update", "timeseries", {
			"office_id": "SPK",
			"data_source": "MANUAL",
			"created_ns": (shift_end - (34 * hour)) - (20 * second),
		}),
		(shift_end - (10 * hour)) - (100 * second),
	)
	lives_exactly(asked, 80)
}

test_a_partnership_ends if {
	soon := object.union(partner, {"partnership_expiry_ns": at + (90 * second)})
	lives_exactly(question(soon, "read", "timeseries", stage), 90)
	lives_exactly(question(soon, "create", "timeseries", {"parameter": "Stage", "office_id": "SPK"}), 90)
	lives_exactly(question(partner, "read", "timeseries", stage), 300)
}

# What should be a number and is none, and a Check without time, grant nothing.
test_evidence_of_the_wrong_type_grants_nothing if {
	fresh := {"office_id": "SPK", "data_source": "MANUAL", "created_ns": "1764517554000000000"}
	denied(ask(operator, "update", "timeseries", fresh), "record_too_old")
	not ask(viewer, "read", "levels", {"office_id": "SPL", "timestamp_ns": "0"}).allow
	timeless := json.patch(write, [{"op": "remove", "path": "/context/time_ns"}])
	denied(answer(timeless), "shift_unknown")
}
