# The document that the backend reads from x-cwms-auth-context. The core fills in the decision's id
# and time; a policy never sees them.
package cwms.authz

document := {
	"policy": {"allow": true, "decision_id": ""},
	"user": header_user,
	"constraints": constraints,
	"context": {},
	"timestamp": "",
}

header_user := object.union(
	{"id": user.id, "username": user.id, "roles": roles, "offices": offices, "primary_office": "HQ"},
	object.filter(user, ["username", "email", "primary_office", "persona", "ts_privileges"]),
)
