package rbac

default decision := {"allow": false, "reason": "no_role"}

decision := {"allow": true, "reason": "role"} if {
	some role in input.user.roles
	some grant in grants[role]
	grant.action == input.action
	grant.resource == input.resource
}

grants := {
	"guest": [{"action": "read", "resource": "people"}],
	"admin": [
		{"action": "read", "resource": "people"},
		{"action": "create", "resource": "people"},
	],
}
