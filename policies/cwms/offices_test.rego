package cwms.authz_test

# A dam operator in Sacramento, a viewer in Tulsa, nothing in Fort Worth.
split := {
	"id": "s",
	"roles": ["dam_operator", "Viewer Users", "data_manager"],
	"offices": ["SPK", "SWT", "FTW"],
	"office_roles": {"SPK": ["dam_operator", "data_manager"], "SWT": ["Viewer Users"], "FTW": []},
}

test_s5_3_roles_count_only_where_they_are_held if {
	allowed(ask(split, "read", "gates", {"office_id": "SPK"}), "dam_operator")
	denied(ask(split, "read", "gates", {"office_id": "SWT"}), "not_permitted")
	allowed(ask(split, "read", "levels", {"office_id": "SWT"}), "viewer_users")
	denied(ask(split, "read", "levels", {"office_id": "FTW"}), "not_permitted")
	denied(ask(split, "read", "levels", {"office_id": "GAL"}), "office_not_yours")
	flat := object.remove(split, ["office_roles"])
	allowed(ask(flat, "read", "gates", {"office_id": "SWT"}), "dam_operator")
}

test_s5_3_what_a_role_lifts_is_lifted_only_where_it_is_held if {
	limits(question(split, "read", "levels", {"office_id": "SPK"})).embargo_exempt == true
	limits(question(split, "read", "levels", {"office_id": "SWT"})).embargo_exempt == false
	limits(question(split, "read", "offices", {})).embargo_exempt == false
	manager := object.union(split, {"persona": "data_manager"})
	count(limits(question(manager, "read", "levels", {"office_id": "SPK"})).data_classification) == 4
	count(limits(question(manager, "read", "levels", {"office_id": "SWT"})).data_classification) == 2
	planning := object.union(split, {
		"roles": ["dam_operator", "Viewer Users", "data_manager", "water_manager"],
		"office_roles": {"SWT": ["Viewer Users", "water_manager"]},
	})
	limits(question(planning, "read", "forecasts", {"office_id": "SWT"})).embargo_exempt == true
	count(limits(question(planning, "read", "forecasts", {"office_id": "SWT"})).data_classification) == 4
}

test_a_persona_widens_nothing_where_roles_are_known_by_office if {
	every persona in ["automated_processor", "system_admin", "water_manager"] {
		labelled := object.union(split, {"persona": persona})
		made := limits(question(labelled, "read", "levels", {"office_id": "SWT"}))
		made.embargo_exempt == false
		count(made.data_classification) == 2
		limits(question(labelled, "read", "offices", {})).allowed_offices == ["SPK", "SWT", "FTW"]
	}
}

test_a_partner_without_office_sees_where_he_is_one if {
	person := {
		"id": "x",
		"roles": ["external_cooperator", "Viewer Users"],
		"offices": ["SPK", "SWT"],
		"office_roles": {"SPK": ["external_cooperator"], "SWT": ["Viewer Users"]},
		"allowed_parameters": ["Stage"],
		"partnership_expiry_ns": at + hour,
	}
	limits(question(person, "read", "timeseries", stage)).allowed_offices == ["SPK"]
	denied(ask(person, "read", "timeseries", object.union(stage, {"parameter": "Flow"})), "parameter_not_permitted")
}

test_unions_are_made_where_the_context_has_none if {
	person := object.remove(split, ["roles", "offices"])
	allowed(ask(person, "read", "gates", {"office_id": "SPK"}), "dam_operator")
	user := ask(person, "read", "gates", {"office_id": "SPK"}).headers["x-cwms-auth-context"].document.user
	user.offices == ["FTW", "SPK", "SWT"]
	"Viewer Users" in user.roles
}

# The role that the flat union has is held elsewhere: not one persona grants at this office.
test_s5_3_no_persona_acts_where_its_role_is_not_held if {
	person := {
		"id": "e",
		"persona": "dam_operator",
		"shift_start": 0,
		"shift_end": 24,
		"roles": [
			"dam_operator",
			"water_manager",
			"data_manager",
			"automated_collector",
			"external_cooperator",
			"Viewer Users",
		],
		"offices": ["SPK", "SWT"],
		"office_roles": {
			"SPK": [
				"dam_operator",
				"water_manager",
				"data_manager",
				"automated_collector",
				"external_cooperator",
				"Viewer Users",
			],
			"SWT": [],
		},
		"allowed_parameters": ["Stage"],
		"partnership_expiry_ns": at + hour,
	}
	every source in ["MANUAL", "AUTOMATED"] {
		every action in ["read", "create", "update", "delete"] {
			every resource in ["timeseries", "locations", "ratings", "levels", "measurements", "forecasts"] {
				context := {
					"office_id": "SWT",
					"data_source": source,
					"parameter": "Stage",
					"classification": "internal",
					"created_ns": at - hour,
					"approval_status": "approved",
					"approver_id": "z",
				}
				denied(answer(by_key(question(person, action, resource, context))), "not_permitted")
			}
		}
	}
	allowed(ask(person, "update", "ratings", {"office_id": "SPK"}), "data_manager")
}

# An office that the flat union knows and office_roles does not: no role is held there.
test_s5_3_the_flat_union_gives_no_role_where_roles_are_known_by_office if {
	person := {
		"id": "v",
		"roles": ["Viewer Users"],
		"offices": ["SPK", "SWT"],
		"office_roles": {"SPK": ["Viewer Users"]},
	}
	allowed(ask(person, "read", "levels", {"office_id": "SPK"}), "viewer_users")
	denied(ask(person, "read", "levels", {"office_id": "SWT"}), "not_permitted")
}

test_a_partner_whose_roles_are_flat_sees_his_offices if {
	limits(question(partner, "read", "timeseries", stage)).allowed_offices == ["SPK"]
	limits(question(partner, "read", "timeseries", object.union(stage, {"office_id": "SPK"}))).allowed_offices == ["SPK"]
}
