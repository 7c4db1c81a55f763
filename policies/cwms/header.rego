# The user, in the document that the backend reads from x-cwms-auth-context (see decision.rego).
package cwms.authz

header_user := object.union(
	{
		"id": id,
		"username": id,
		"roles": roles,
		"offices": offices,
		"primary_office": "HQ",
	},
	object.filter(input.user, ["username", "email", "primary_office", "persona", "ts_privileges"]),
) if {
	id := input.user.id
}

else := {
	"id": "anonymous",
	"username": "anonymous",
	"email": "anonymous@example.com",
	"roles": [],
	"offices": [],
	"primary_office": "HQ",
} if {
	not input.user
}
