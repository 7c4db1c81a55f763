# The entry points: decision, the whole answer, and allow, the boolean at the path that callers
# already use. Both read the Check's time (input.context.time_ns) and no other clock. The document in
# the header is what the backend reads; the core fills in the decision's id and time, which a policy
# never sees.
package cwms.authz

# What the caller named outside of what he may access is refused before anything else.
decision := {"allow": false, "reason": naming_fault, "ttl": 300} if naming_fault

else := {
	"allow": true,
	"reason": granted.by,
	"headers": {"x-cwms-auth-context": {
		"document": {
			"policy": {"allow": true, "decision_id": ""},
			"user": who,
			"constraints": bounds,
			"context": {},
			"timestamp": "",
		},
		"stamp": {"/policy/decision_id": "decision_id", "/timestamp": "decided_at"},
	}},
	"constraints": bounds,
	"ttl": granted.ttl,
} if {
	granted := grant
	who := header_user
	bounds := constraints
}

else := {"allow": false, "reason": refusal, "ttl": refusal_ttl}

default allow := false

allow if decision.allow

# What each says, by role: the reason it gives for an allow, and its claim (personas/). One module
# has to hold all clauses of the function: not every engine merges those of several.
claim_of("data_manager") := ["data_manager", data_manager]

claim_of("water_manager") := ["water_manager", water_manager]

claim_of("automated_collector") := ["automated_collector", automated_collector]

claim_of("automated_processor") := ["automated_processor", automated_processor]

claim_of("Viewer Users") := ["viewer_users", viewer_users]

claim_of("dam_operator") := ["dam_operator", dam_operator]

claim_of("public") := ["public", public]

claim_of("external_cooperator") := ["external_cooperator", external_cooperator]

# The caller's personas; everybody may ask as the public. Those whom time never changes come first,
# so that they end the search with the longest life.
personas := [persona |
	asked := array.concat(["public"], roles)
	some persona in [
		"data_manager",
		"water_manager",
		"automated_collector",
		"automated_processor",
		"Viewer Users",
		"dam_operator",
		"public",
		"external_cooperator",
	]
	persona in asked
]

# Their claims, in that order. A claim is {"ok", "ttl", "reason"?}; ttl says in how many seconds it
# turns, at most 300.
claims := [claim |
	some persona in personas
	claim := claim_of(persona)
]

# Who grants, and for how long: until that claim ends, or one asked before it begins to hold.
grant := {"by": admin, "ttl": 300} if {
	not ordinary
	admin
}

else := {"by": reason, "ttl": claim.ttl} if {
	# Mostly the first grants; then nobody else need be asked.
	[reason, claim] := claim_of(personas[0])
	claim.ok
}

else := {"by": claims[first][0], "ttl": min([claim[1].ttl | some i, claim in claims; i <= first])} if {
	first := min([i | some i, claim in claims; claim[1].ok])
}

# Why nobody grants: the first claim that knows, else the general case.
refusal := "user_without_id" if {
	input.user
	not input.user.id
}

else := first if first := [claim[1].reason | some claim in claims][0]

else := "sign_in_required" if anonymous

else := "office_missing" if not input.context.office_id

else := "not_permitted"

refusal_ttl := min(array.concat([300], [claim[1].ttl | some claim in claims]))
