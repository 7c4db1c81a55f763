package cwms.authz_test

import data.cwms.authz

test_allow_is_the_boolean_of_the_decision if {
	authz.allow with input as question(planner, "read", "forecasts", {"office_id": "SWT"})
	not authz.allow with input as question(planner, "read", "forecasts", {"office_id": "SPK"})
	authz.allow == false with input as {}
}

test_the_answer_has_only_keys_of_the_contract if {
	object.keys(ask(operator, "read", "levels", {"office_id": "SPK"})) == {
		"allow",
		"reason",
		"headers",
		"constraints",
		"ttl",
	}
	object.keys(ask(operator, "read", "levels", {"office_id": "SWT"})) == {"allow", "reason", "ttl"}
}

test_who_rules_every_office_may_all if {
	allowed(ask(root, "delete", "zzz", {}), "system_admin")
	allowed(ask(object.union(root, {"roles": ["hec_employee"]}), "update", "zzz", {"office_id": "SWT"}), "hec_employee")
	denied(ask(object.union(root, {"roles": ["system_administrator"]}), "delete", "zzz", {}), "office_missing")
}

test_an_empty_input_is_denied if {
	denied(answer({}), "sign_in_required")
	denied(answer({"identity": {"method": "jwt"}, "action": "read", "resource": "levels"}), "sign_in_required")
}

test_a_user_without_id_is_denied_even_what_is_public if {
	denied(
		answer({
			"identity": {"method": "jwt", "subject": "s"},
			"user": {"roles": [], "offices": []},
			"action": "read",
			"resource": "offices",
			"context": {},
		}),
		"user_without_id",
	)
}

test_reasons_of_the_general_case if {
	denied(answer(unknown("read", "levels", {})), "sign_in_required")
	denied(ask(planner, "read", "forecasts", {}), "office_missing")
	denied(ask(planner, "delete", "forecasts", {"office_id": "SWT"}), "not_permitted")
	denied(ask(operator, "read", "timeseries", {"office_id": "SWT"}), "office_not_yours")
	denied(ask(root, "read", "timeseries", {"classification": "secret"}), "classification_not_permitted")
}

# A role that time does not bind is asked before one that it does, and gives the longer life.
test_the_longest_living_claim_grants if {
	both := object.union(operator, {"roles": ["dam_operator", "data_manager"]})
	made := ask(both, "create", "timeseries", {"office_id": "SPK", "data_source": "MANUAL"})
	allowed(made, "data_manager")
	made.ttl == 300
}

test_a_later_claim_grants_where_an_earlier_one_fails if {
	both := object.union(partner, {"roles": ["dam_operator", "external_cooperator"]})
	context := {"office_id": "SPK", "data_source": "MANUAL", "parameter": "Stage"}
	allowed(ask(both, "create", "timeseries", context), "external_cooperator")
}

test_no_word_on_how_he_came_is_anonymous if {
	asked := object.union(
		object.remove(question(viewer, "read", "offices", {}), ["identity"]),
		{"identity": {"subject": "v"}},
	)
	limits(asked).data_classification == ["public"]
}
