package cwms.authz_test

test_water_manager_reads_the_own_office if {
	every resource in ["timeseries", "locations", "forecasts", "models", "scenarios", "ratings", "levels"] {
		allowed(ask(planner, "read", resource, {"office_id": "SWT"}), "water_manager")
		denied(ask(planner, "read", resource, {"office_id": "SPK"}), "office_not_yours")
		denied(ask(planner, "read", resource, {}), "office_missing")
		denied(ask(planner, "delete", resource, {"office_id": "SWT"}), "not_permitted")
	}
	denied(ask(planner, "read", "gates", {"office_id": "SWT"}), "not_permitted")
}

test_water_manager_writes_plans if {
	every resource in ["timeseries", "locations", "forecasts", "models", "scenarios"] {
		every action in ["create", "update"] {
			allowed(ask(planner, action, resource, {"office_id": "SWT"}), "water_manager")
			denied(ask(planner, action, resource, {"office_id": "SPK"}), "office_not_yours")
		}
	}
	denied(ask(planner, "update", "ratings", {"office_id": "SWT"}), "not_permitted")
}
