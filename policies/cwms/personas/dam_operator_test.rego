package cwms.authz_test

entry := {"office_id": "SPK", "data_source": "MANUAL"}

test_dam_operator_reads_the_own_office if {
	every resource in ["timeseries", "measurements", "levels", "gates", "locations"] {
		allowed(ask(operator, "read", resource, {"office_id": "SPK"}), "dam_operator")
		denied(ask(operator, "read", resource, {"office_id": "SWT"}), "office_not_yours")
		denied(ask(operator, "read", resource, {}), "office_missing")
	}
	denied(ask(operator, "read", "ratings", {"office_id": "SPK"}), "not_permitted")
	denied(ask(operator, "delete", "gates", {"office_id": "SPK"}), "not_permitted")
	denied(ask(operator, "delete", "timeseries", object.union(entry, {"created_ns": at - hour})), "not_permitted")
}

test_dam_operator_does_not_read_what_is_embargoed if {
	context := {"office_id": "SPK", "ts_group_id": "A", "timestamp_ns": at - (80 * hour)}
	denied(ask(operator, "read", "timeseries", context), "embargoed")
	granted := object.union(operator, {"ts_privileges": [{"ts_group_id": "A", "embargo_hours": 72}]})
	allowed(ask(granted, "read", "timeseries", context), "dam_operator")
}

test_dam_operator_enters_by_hand_within_the_shift if {
	every resource in ["timeseries", "measurements"] {
		allowed(ask(operator, "create", resource, entry), "dam_operator")
		denied(ask(operator, "create", resource, {"office_id": "SPK"}), "data_source_not_permitted")
		denied(
			ask(operator, "create", resource, {"office_id": "SPK", "data_source": "AUTOMATED"}),
			"data_source_not_permitted",
		)
		late := object.union(operator, {"shift_start": 8})
		denied(ask(late, "create", resource, entry), "shift_over")
		done := object.union(operator, {"shift_end": 7})
		denied(ask(done, "create", resource, entry), "shift_over")
	}
	denied(ask(operator, "create", "gates", entry), "not_permitted")
}

# The shift check cannot be got around: another persona, or none, has no shift.
test_dam_operator_needs_the_operators_persona_to_write if {
	denied(ask(object.union(operator, {"persona": "other"}), "create", "timeseries", entry), "shift_unknown")
	denied(ask(object.remove(operator, ["persona"]), "create", "timeseries", entry), "shift_unknown")
	denied(ask(object.remove(operator, ["shift_end"]), "create", "timeseries", entry), "shift_unknown")
	denied(ask(object.union(operator, {"shift_end": "24"}), "create", "timeseries", entry), "shift_unknown")
	denied(ask(object.union(operator, {"shift_start": "0"}), "create", "timeseries", entry), "shift_unknown")
	denied(ask(object.union(operator, {"timezone": "No/Where"}), "create", "timeseries", entry), "shift_unknown")
}

test_dam_operator_changes_what_is_a_day_old_at_most if {
	fresh := object.union(entry, {"created_ns": at - hour})
	allowed(ask(operator, "update", "timeseries", fresh), "dam_operator")
	old := object.union(entry, {"created_ns": at - (24 * hour)})
	denied(ask(operator, "update", "timeseries", old), "record_too_old")
	denied(ask(operator, "update", "timeseries", entry), "record_age_unknown")
	late := object.union(operator, {"shift_start": 8})
	denied(ask(late, "update", "timeseries", fresh), "shift_over")
	denied(ask(operator, "update", "timeseries", object.remove(fresh, ["data_source"])), "data_source_not_permitted")
}
