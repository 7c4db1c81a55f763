package cwms.authz_test

approval := {"office_id": "SWT", "approval_status": "approved", "approver_id": "z"}

test_data_manager_keeps_the_own_offices_data if {
	every resource in ["timeseries", "locations", "catalogs", "ratings", "measurements", "levels"] {
		every action in ["read", "create", "update"] {
			allowed(ask(steward, action, resource, {"office_id": "SWT"}), "data_manager")
			denied(ask(steward, action, resource, {"office_id": "FTW"}), "office_not_yours")
		}
	}
	denied(ask(steward, "read", "forecasts", {"office_id": "SWT"}), "not_permitted")
	denied(ask(steward, "read", "ratings", {}), "office_missing")
}

test_data_manager_of_a_region if {
	allowed(ask(regional, "update", "ratings", {"office_id": "FTW"}), "data_manager")
	denied(ask(regional, "update", "ratings", {"office_id": "SPK"}), "office_not_yours")
	denied(ask(object.union(regional, {"persona": "other"}), "update", "ratings", {"office_id": "FTW"}), "office_not_yours")
	denied(ask(object.union(regional, {"roles": []}), "update", "ratings", {"office_id": "FTW"}), "office_not_yours")
}

test_data_manager_deletes_what_somebody_else_approved if {
	every resource in ["timeseries", "locations", "catalogs", "ratings"] {
		allowed(ask(steward, "delete", resource, approval), "data_manager")
		denied(ask(steward, "delete", resource, {"office_id": "SWT"}), "approval_missing")
		pending := object.union(approval, {"approval_status": "pending"})
		denied(ask(steward, "delete", resource, pending), "approval_missing")
		denied(ask(steward, "delete", resource, object.remove(approval, ["approver_id"])), "approver_missing")
	}
	denied(ask(steward, "delete", "levels", approval), "not_permitted")
	denied(ask(steward, "purge", "ratings", approval), "not_permitted")
}

# By whatever name he goes.
test_data_manager_does_not_approve_himself if {
	every name in ["m", "M", "mo", "Mo"] {
		own := object.union(approval, {"approver_id": name})
		denied(ask(steward, "delete", "ratings", own), "approver_is_requester")
		unnamed := object.remove(steward, ["username"])
		denied(
			ask(unnamed, "delete", "ratings", object.union(approval, {"approver_id": "m"})),
			"approver_is_requester",
		)
	}
	every bad in ["", 7, null] {
		denied(ask(steward, "delete", "ratings", object.union(approval, {"approver_id": bad})), "approver_missing")
	}
	subject := object.union(
		question(steward, "delete", "ratings", object.union(approval, {"approver_id": "S-1"})),
		{"identity": {"method": "jwt", "subject": "s-1"}},
	)
	denied(answer(subject), "approver_is_requester")
}
