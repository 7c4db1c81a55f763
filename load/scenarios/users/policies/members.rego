package members

default decision := {"allow": false, "reason": "no_member"}

decision := {"allow": true, "reason": "member", "headers": {"x-user-id": input.identity.subject}} if {
	"member" in input.user.roles
}
