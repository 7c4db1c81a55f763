package cwms.authz_test

stage := {"parameter": "Stage", "classification": "internal"}

test_external_cooperator_reads_named_parameters if {
	allowed(ask(partner, "read", "timeseries", stage), "external_cooperator")
	allowed(ask(partner, "read", "timeseries", object.union(stage, {"office_id": "SPK"})), "external_cooperator")
	denied(ask(partner, "read", "timeseries", object.union(stage, {"office_id": "SWT"})), "office_not_yours")
	denied(ask(partner, "read", "timeseries", object.union(stage, {"parameter": "Flow"})), "parameter_not_permitted")
	denied(ask(partner, "read", "timeseries", {"classification": "internal"}), "parameter_not_permitted")
	denied(ask(partner, "read", "timeseries", {"parameter": "Stage"}), "classification_missing")
	sensitive := object.union(stage, {"classification": "sensitive"})
	denied(ask(partner, "read", "timeseries", sensitive), "classification_not_permitted")
	denied(ask(partner, "read", "levels", stage), "office_missing")
	embargoed := object.union(stage, {"ts_group_id": "X", "timestamp_ns": at - hour})
	denied(ask(partner, "read", "timeseries", embargoed), "embargoed")
}

# A caller who sees all classes in another role does not as a partner.
test_external_cooperator_never_reads_what_is_sensitive if {
	both := object.union(partner, {"persona": "data_manager"})
	denied(
		ask(both, "read", "timeseries", object.union(stage, {"classification": "sensitive"})),
		"classification_not_permitted",
	)
}

test_external_cooperator_delivers_to_the_own_office if {
	context := {"parameter": "Stage", "office_id": "SPK"}
	allowed(ask(partner, "create", "timeseries", context), "external_cooperator")
	denied(ask(partner, "create", "timeseries", {"parameter": "Stage"}), "office_missing")
	denied(ask(partner, "create", "timeseries", {"parameter": "Flow", "office_id": "SPK"}), "parameter_not_permitted")
	denied(ask(partner, "update", "timeseries", context), "not_permitted")
	denied(ask(partner, "create", "levels", context), "not_permitted")
}

test_external_cooperator_stops_when_the_partnership_does if {
	over := object.union(partner, {"partnership_expiry_ns": at})
	denied(ask(over, "read", "timeseries", stage), "partnership_over")
	denied(ask(over, "create", "timeseries", {"parameter": "Stage", "office_id": "SPK"}), "partnership_over")
	endless := object.remove(partner, ["partnership_expiry_ns"])
	denied(ask(endless, "read", "timeseries", stage), "partnership_unknown")
	text := object.union(partner, {"partnership_expiry_ns": "2099-01-01"})
	denied(ask(text, "read", "timeseries", stage), "partnership_over")
}
