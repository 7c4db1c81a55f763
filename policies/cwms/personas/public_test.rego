package cwms.authz_test

test_public_reads_the_services_state_and_nothing_else if {
	every resource in ["health", "ready", "metrics"] {
		allowed(answer(unknown("read", resource, {})), "public")
		every action in ["create", "update", "delete", "unknown"] {
			denied(answer(unknown(action, resource, {})), "sign_in_required")
			not ask(viewer, action, resource, {}).allow
		}
	}
}

test_public_reads_reference_data if {
	every resource in ["offices", "units", "parameters", "timezones"] {
		allowed(answer(unknown("read", resource, {})), "public")
		denied(answer(unknown("create", resource, {})), "sign_in_required")
	}
}

test_public_reads_what_is_classified_public if {
	every resource in ["timeseries", "locations"] {
		allowed(answer(unknown("read", resource, {"classification": "public"})), "public")
		denied(answer(unknown("read", resource, {})), "sign_in_required")
		denied(answer(unknown("read", resource, {"classification": "internal"})), "classification_not_permitted")
		denied(answer(unknown("update", resource, {"classification": "public"})), "sign_in_required")
	}
	denied(answer(unknown("read", "levels", {"classification": "public"})), "sign_in_required")
}

test_public_waits_for_the_embargo_to_end if {
	context := {"classification": "public", "ts_group_id": "X"}
	young := object.union(context, {"timestamp_ns": at - hour})
	old := object.union(context, {"timestamp_ns": at - (169 * hour)})
	denied(answer(unknown("read", "timeseries", young)), "embargoed")
	allowed(answer(unknown("read", "timeseries", old)), "public")
}
