package cwms.authz_test

test_viewer_users_read_reference_data if {
	every resource in ["offices", "units", "parameters", "timezones"] {
		allowed(ask(viewer, "read", resource, {}), "viewer_users")
		denied(ask(viewer, "update", resource, {"office_id": "SPL"}), "not_permitted")
	}
}

test_viewer_users_read_the_own_office if {
	every resource in ["timeseries", "locations", "levels"] {
		allowed(ask(viewer, "read", resource, {"office_id": "SPL"}), "viewer_users")
		denied(ask(viewer, "read", resource, {"office_id": "SWT"}), "office_not_yours")
		denied(ask(viewer, "read", resource, {}), "office_missing")
		denied(ask(viewer, "create", resource, {"office_id": "SPL"}), "not_permitted")
	}
	denied(ask(viewer, "read", "ratings", {"office_id": "SPL"}), "not_permitted")
	context := {"office_id": "SPL", "ts_group_id": "X", "timestamp_ns": at - hour}
	denied(ask(viewer, "read", "timeseries", context), "embargoed")
}
