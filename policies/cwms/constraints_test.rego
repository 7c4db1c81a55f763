package cwms.authz_test

limits(asked) := answer(asked).constraints

test_constraints_have_exactly_the_backends_keys if {
	object.keys(limits(question(viewer, "read", "levels", {"office_id": "SPL"}))) == {
		"allowed_offices",
		"embargo_rules",
		"embargo_exempt",
		"ts_group_embargo",
		"time_window",
		"data_classification",
	}
}

test_s7_4_allowed_offices_is_what_he_may_and_what_he_named if {
	two := object.union(viewer, {"offices": ["SPL", "SPK"]})
	limits(question(two, "read", "offices", {})).allowed_offices == ["SPL", "SPK"]
	limits(question(two, "read", "offices", {"office_id": "SPK"})).allowed_offices == ["SPK"]
	limits(question(regional, "read", "offices", {})).allowed_offices == ["SWT", "SPA", "GAL", "FTW"]
	limits(question(regional, "read", "ratings", {"office_id": "GAL"})).allowed_offices == ["GAL"]
}

test_s7_4_every_office if {
	limits(question(root, "read", "levels", {})).allowed_offices == ["*"]
	limits(question(root, "read", "levels", {"office_id": "SWT"})).allowed_offices == ["SWT"]
	hec := object.union(root, {"roles": ["hec_employee"]})
	limits(question(hec, "read", "levels", {})).allowed_offices == ["*"]
	limits(question(processor, "create", "timeseries", computed)).allowed_offices == ["*"]
	labelled := object.union(viewer, {"persona": "automated_processor"})
	limits(question(labelled, "read", "offices", {})).allowed_offices == ["*"]
}

test_s7_4_only_naming_that_leaves_nothing_is_a_denial if {
	denied(ask(viewer, "read", "offices", {"office_id": "SWT"}), "office_not_yours")
	denied(ask(viewer, "read", "offices", {"office_id": "*"}), "office_not_yours")
	denied(ask(root, "read", "offices", {"office_id": ["SWT"]}), "office_not_yours")
	limits(unknown("read", "offices", {})).allowed_offices == []
	limits(unknown("read", "offices", {"office_id": "SWT"})).allowed_offices == []
	limits(unknown("read", "timeseries", {"classification": "public", "office_id": "SWT"})).allowed_offices == []
}

test_an_office_named_star_is_nobodys if {
	odd := object.union(viewer, {"offices": ["*"]})
	limits(question(odd, "read", "offices", {})).allowed_offices == []
	denied(ask(odd, "read", "levels", {"office_id": "*"}), "not_permitted")
	scoped := {"id": "v", "roles": [], "offices": ["*"], "office_roles": {"*": ["Viewer Users"], "SPK": []}}
	limits(question(scoped, "read", "offices", {})).allowed_offices == ["SPK"]
}

with_groups(privileges) := question(
	object.union(viewer, {"ts_privileges": privileges}),
	"read", "levels", {"office_id": "SPL"},
)

test_s7_4_who_is_not_exempt_carries_an_embargo if {
	limits(question(viewer, "read", "levels", {"office_id": "SPL"})).embargo_rules == {"default": 168}
	limits(with_groups([])).embargo_rules == {"default": 168}
	limits(with_groups([{"ts_group_id": "A", "embargo_hours": 0}])).embargo_rules == {"default": 168}
	limits(unknown("read", "offices", {})).embargo_rules == {"default": 168}
	two := limits(with_groups([{"ts_group_id": "A", "embargo_hours": 24}, {"ts_group_id": "B", "embargo_hours": 72}]))
	two.embargo_rules == {"default": 72}
	two.ts_group_embargo == {"A": 24, "B": 72}
	two.embargo_exempt == false
}

test_of_two_privileges_for_one_group_the_longer_embargo_counts if {
	made := limits(question(
		object.union(viewer, {"ts_privileges": [
			{"ts_group_id": "A", "embargo_hours": 72},
			{"ts_group_id": "A", "embargo_hours": 24},
			{"ts_group_id": "B"},
		]}),
		"read", "levels", {"office_id": "SPL"},
	))
	made.ts_group_embargo == {"A": 72, "B": 168}
}

test_no_groups_is_null if {
	limits(question(viewer, "read", "offices", {})).ts_group_embargo == null
	limits(question(object.union(viewer, {"ts_privileges": []}), "read", "offices", {})).ts_group_embargo == null
}

test_who_is_exempt if {
	every person in [planner, steward] {
		made := limits(question(person, "read", "ratings", {"office_id": "SWT"}))
		made.embargo_exempt == true
		made.embargo_rules == {}
	}
	limits(question(root, "read", "levels", {})).embargo_exempt == true
	every persona in ["data_manager", "water_manager", "system_admin", "hec_employee"] {
		labelled := object.union(viewer, {"persona": persona})
		limits(question(labelled, "read", "levels", {"office_id": "SPL"})).embargo_exempt == true
	}
	limits(question(operator, "read", "levels", {"office_id": "SPK"})).embargo_exempt == false
}

test_time_window_is_the_operators if {
	limits(question(operator, "read", "levels", {"office_id": "SPK"})).time_window == {"restrict_hours": 8}
	limits(question(viewer, "read", "levels", {"office_id": "SPL"})).time_window == null
}

test_classification_named_only_narrows if {
	all := ["public", "internal", "restricted", "sensitive"]
	limits(question(root, "read", "levels", {})).data_classification == all
	limits(question(planner, "read", "levels", {"office_id": "SWT"})).data_classification == all
	limits(question(regional, "read", "levels", {"office_id": "SWT"})).data_classification == all
	limits(question(steward, "read", "levels", {"office_id": "SWT"})).data_classification == ["public", "internal"]
	limits(question(viewer, "read", "offices", {})).data_classification == ["public", "internal"]
	limits(unknown("read", "offices", {})).data_classification == ["public"]
	narrowed := limits(question(planner, "read", "levels", {"office_id": "SWT", "classification": "restricted"}))
	narrowed.data_classification == ["restricted"]
	denied(
		ask(viewer, "read", "levels", {"office_id": "SPL", "classification": "restricted"}),
		"classification_not_permitted",
	)
}

test_a_label_sees_all_classes_where_roles_are_not_known_by_office if {
	every persona in ["data_manager", "system_admin", "hec_employee"] {
		labelled := object.union(viewer, {"persona": persona})
		count(limits(question(labelled, "read", "levels", {"office_id": "SPL"})).data_classification) == 4
	}
	labelled := object.union(viewer, {"persona": "water_manager"})
	count(limits(question(labelled, "read", "levels", {"office_id": "SPL"})).data_classification) == 2
}

# Without an office, a flat context's roles still count.
test_a_flat_role_is_exempt_without_an_office if {
	every person in [planner, steward] {
		limits(question(person, "read", "offices", {})).embargo_exempt == true
	}
}
