package cwms.authz_test

header(asked) := answer(asked).headers["x-cwms-auth-context"]

test_the_document_of_a_dam_operator if {
	made := header(question(operator, "read", "levels", {"office_id": "SPK"}))
	made.stamp == {"/policy/decision_id": "decision_id", "/timestamp": "decided_at"}
	made.document == {
		"policy": {"allow": true, "decision_id": ""},
		"user": {
			"id": "d",
			"username": "d",
			"email": "d@example.test",
			"roles": ["dam_operator"],
			"offices": ["SPK"],
			"primary_office": "SPK",
			"persona": "dam_operator",
		},
		"constraints": {
			"allowed_offices": ["SPK"],
			"embargo_rules": {"default": 168},
			"embargo_exempt": false,
			"ts_group_embargo": null,
			"time_window": {"restrict_hours": 8},
			"data_classification": ["public", "internal"],
		},
		"context": {},
		"timestamp": "",
	}
}

test_the_document_of_nobody if {
	asked := object.remove(unknown("read", "offices", {}), ["user"])
	header(asked).document.user == {
		"id": "anonymous",
		"username": "anonymous",
		"email": "anonymous@example.com",
		"roles": [],
		"offices": [],
		"primary_office": "HQ",
	}
	header(unknown("read", "offices", {})).document.user == {
		"id": "anonymous",
		"username": "anonymous",
		"roles": [],
		"offices": [],
		"primary_office": "HQ",
	}
}

test_privileges_travel_and_nothing_else_of_the_user_does if {
	privileges := [{"ts_group_code": 7, "ts_group_id": "A", "privilege": "read", "embargo_hours": 24}]
	person := object.union(operator, {"ts_privileges": privileges, "secret": "x", "office_roles": {"SPK": ["dam_operator"]}})
	user := header(question(person, "read", "levels", {"office_id": "SPK"})).document.user
	user.ts_privileges == privileges
	object.keys(user) == {
		"id",
		"username",
		"email",
		"roles",
		"offices",
		"primary_office",
		"persona",
		"ts_privileges",
	}
}
