package cwms.profile_test

import data.cwms.profile

given := {
	"user-name": "Ann.Lee",
	"email": "ann@example.test",
	"roles": {"SPK": ["dam_operator", "CWMS Users"], "SWT": ["Viewer Users", "CWMS Users"]},
	"ts-group-privileges": [
		{"ts-group-code": 1, "ts-group-id": "A", "privilege": "read", "embargo-hours": 72},
		{"ts-group-code": 2, "ts-group-id": "B", "privilege": "read-write"},
	],
}

mapped(document) := made if made := profile.user with input as {
	"profile": document,
	"identity": {"method": "jwt", "subject": "s"},
	"token": {"preferred_username": "claimed", "realm_access": {"roles": ["system_admin"]}},
}

test_s5_3_a_profile_keeps_who_is_what_where if {
	mapped(given) == {
		"id": "Ann.Lee",
		"username": "Ann.Lee",
		"email": "ann@example.test",
		"roles": ["CWMS Users", "Viewer Users", "dam_operator"],
		"offices": ["SPK", "SWT"],
		"office_roles": {"SPK": ["dam_operator", "CWMS Users"], "SWT": ["Viewer Users", "CWMS Users"]},
		"primary_office": "SPK",
		"ts_privileges": [
			{"ts_group_code": 1, "ts_group_id": "A", "privilege": "read", "embargo_hours": 72},
			{"ts_group_code": 2, "ts_group_id": "B", "privilege": "read-write", "embargo_hours": 168},
		],
	}
}

test_a_profile_may_say_more if {
	made := mapped(object.union(given, {
		"persona": "dam_operator",
		"region": "south_pacific",
		"timezone": "America/Los_Angeles",
		"shift-start": 6,
		"shift-end": 18,
		"allowed-parameters": ["Stage"],
		"partnership-expiry": "2027-01-01T00:00:00Z",
		"primary-office": "SWT",
		"unheard-of": true,
	}))
	made.persona == "dam_operator"
	made.region == "south_pacific"
	made.timezone == "America/Los_Angeles"
	made.shift_start == 6
	made.shift_end == 18
	made.allowed_parameters == ["Stage"]
	made.partnership_expiry_ns == 1798761600000000000
	made.primary_office == "SWT"
	count(made) == 15
}

test_the_email_falls_back_to_the_name if {
	mapped(object.remove(given, ["email"])).email == "ann.lee@usace.mil"
	mapped(object.union(given, {"email": null})).email == "ann.lee@usace.mil"
}

test_a_user_without_office if {
	made := mapped({"user-name": "n", "roles": {}, "primary-office": "SPK"})
	made.offices == []
	made.roles == []
	made.primary_office == "HQ"
	made.ts_privileges == []
}

# Never the claims instead.
test_an_unusable_profile_is_undefined if {
	every change in [
		{"user-name": ""},
		{"user-name": null},
		{"user-name": 7},
		{"roles": []},
		{"roles": null},
		{"roles": {"SPK": "dam_operator"}},
		{"roles": {"SPK": [7]}},
		{"roles": {"*": ["Viewer Users"]}},
		{"roles": {"SPK": {"a": "dam_operator"}}},
		{"persona": 7},
		{"shift-start": "6"},
		{"allowed-parameters": "Stage"},
		{"partnership-expiry": "soon"},
		{"partnership-expiry": 7},
		{"ts-group-privileges": {}},
		{"ts-group-privileges": [{"ts-group-code": 1, "ts-group-id": "A", "privilege": "all"}]},
		{"ts-group-privileges": [{"ts-group-code": 1, "ts-group-id": 1, "privilege": "read"}]},
		{"ts-group-privileges": [{"ts-group-code": 1, "ts-group-id": "A", "privilege": "read", "embargo-hours": "1"}]},
		{"ts-group-privileges": [{"ts-group-code": 1, "ts-group-id": "A", "privilege": "read", "embargo-hours": -1}]},
	] {
		not mapped(object.union(object.remove(given, object.keys(change)), change))
	}
	not mapped(null)
	not mapped([])
	not mapped({})
	not mapped("x")
}

test_null_is_absent_in_what_is_optional if {
	mapped(object.union(given, {"persona": null, "partnership-expiry": null})) == mapped(given)
}

claimed(token) := made if made := profile.user with input as {
	"identity": {"method": "jwt", "subject": "s"},
	"token": token,
}

test_every_kind_of_privilege_is_understood if {
	every kind in ["read", "write", "read-write", "none"] {
		entry := {"ts-group-code": 1, "ts-group-id": "A", "privilege": kind, "embargo-hours": 1}
		mapped(object.union(given, {"ts-group-privileges": [entry]})).ts_privileges[0].privilege == kind
	}
}

test_without_a_profile_the_claims_speak if {
	claimed({"preferred_username": "ann", "email": "a@example.test", "realm_access": {"roles": ["Viewer Users"]}}) == {
		"id": "ann",
		"username": "ann",
		"email": "a@example.test",
		"roles": ["Viewer Users"],
		"offices": [],
		"primary_office": "HQ",
	}
	claimed({}) == {"id": "s", "username": "s", "roles": [], "offices": [], "primary_office": "HQ"}
	claimed({"preferred_username": ""}).id == "s"
	claimed({"preferred_username": 7, "realm_access": {"roles": [7]}}).id == "s"
	claimed({"realm_access": {"roles": "system_admin"}}).roles == []
}

test_nobody_in_particular_is_undefined if {
	not profile.user with input as {}
	not profile.user with input as {"identity": {"method": "none"}}
}
