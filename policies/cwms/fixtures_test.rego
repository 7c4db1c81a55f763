# What the tests share: people, a moment, and the question put together.
package cwms.authz_test

import data.cwms.authz

# 2025-11-30 15:45:54 UTC: 09:45 in Tulsa (SWT), 07:45 in Sacramento (SPK).
at := 1764517554000000000

second := 1000000000

hour := 3600 * second

operator := {
	"id": "d",
	"username": "d",
	"email": "d@example.test",
	"roles": ["dam_operator"],
	"offices": ["SPK"],
	"primary_office": "SPK",
	"persona": "dam_operator",
	"timezone": "America/Los_Angeles",
	"shift_start": 6,
	"shift_end": 18,
}

planner := {"id": "w", "roles": ["water_manager"], "offices": ["SWT"]}

steward := {"id": "m", "username": "Mo", "roles": ["data_manager"], "offices": ["SWT"]}

regional := object.union(steward, {"persona": "data_manager", "region": "southwestern"})

collector := {"id": "c", "roles": ["automated_collector"], "offices": ["SPK"]}

processor := {"id": "p", "roles": ["automated_processor"], "offices": ["HQ"]}

partner := {
	"id": "x",
	"roles": ["external_cooperator"],
	"offices": ["SPK"],
	"allowed_parameters": ["Stage"],
	"partnership_expiry_ns": 1764517554000000000 + (1000 * 1000000000),
}

viewer := {"id": "v", "roles": ["Viewer Users"], "offices": ["SPL"]}

root := {"id": "a", "roles": ["system_admin"], "offices": []}

nobody := {"id": "anonymous", "roles": [], "offices": []}

question(person, action, resource, context) := {
	"identity": {"issuer": "https://idp.example.test", "subject": person.id, "method": "jwt"},
	"user": person,
	"action": action,
	"resource": resource,
	"context": object.union({"time": "2025-11-30T15:45:54.000Z", "time_ns": at}, context),
}

unknown(action, resource, context) := object.union(
	question(nobody, action, resource, context),
	{"identity": {"issuer": "", "subject": "", "method": "none"}},
)

answer(asked) := made if made := authz.decision with input as asked

ask(person, action, resource, context) := answer(question(person, action, resource, context))

allowed(made, reason) if {
	made.allow == true
	made.reason == reason
	made.headers["x-cwms-auth-context"].document.policy.allow
}

denied(made, reason) if {
	made.allow == false
	made.reason == reason
	not made.headers
}
