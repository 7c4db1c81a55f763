# What the backend must still apply to an allowed request, and what the caller asked for in vain.
package cwms.authz

constraints := {
	"allowed_offices": allowed_offices,
	"embargo_rules": embargo_rules,
	"embargo_exempt": embargo_exempt,
	"ts_group_embargo": ts_group_embargo,
	"time_window": time_window,
	"data_classification": data_classification,
}

# The intersection of what the caller may access and what he named. Who is entitled to none carries
# an empty list.
allowed_offices := [input.context.office_id] if {
	input.context.office_id
	entitled[0]
}

else := [name | some name, held in input.user.office_roles; "external_cooperator" in held] if {
	# Without an office a partner sees those where he is one, not where he is something else.
	grant.by == "external_cooperator"
	input.user.office_roles
}

else := entitled

# A name outside of what the caller may access.
naming_fault := "office_not_yours" if {
	office := input.context.office_id
	office
	accessible := entitled
	accessible[0]
	not office in accessible
	not accessible[0] == "*"
}

else := "office_not_yours" if {
	office := input.context.office_id
	office
	not is_string(office)
}

else := "classification_not_permitted" if {
	input.context.classification
	not input.context.classification in classes
}

data_classification := [input.context.classification] if input.context.classification

else := classes

# Most callers first.
classes := ["public", "internal"] if {
	ordinary
	input.identity.method
	input.identity.method != "none"
}

else := ["public"] if anonymous

else := ["public", "internal", "restricted", "sensitive"] if admin

else := ["public", "internal", "restricted", "sensitive"] if "water_manager" in roles_here

else := ["public", "internal", "restricted", "sensitive"] if {
	input.user.persona == "data_manager"
	manages_data
}

else := ["public", "internal", "restricted", "sensitive"] if {
	input.user.persona in {"data_manager", "system_admin", "hec_employee"}
	not input.user.office_roles
}

else := ["public", "internal"]

embargo_exempt := false if ordinary

else if admin

else if manages_data

else if "water_manager" in roles_here

else if {
	# A context that does not know offices apart: a role counts wherever it is held.
	not input.user.office_roles
	exempt_without_office
}

else := false

exempt_without_office if input.user.persona in {"data_manager", "water_manager", "system_admin", "hec_employee"}

else if "water_manager" in roles

else if "data_manager" in roles

# Who is not exempt always carries an embargo.
embargo_rules := {} if embargo_exempt

else := {"default": 168} if not input.user.ts_privileges

else := {"default": longest} if {
	longest := max([hours | some hours in group_hours])
	longest > 0
}

else := {"default": 168}

# Hours by time series group; of two for one group the longer counts.
group_hours := object.union_n([{pair[1]: pair[0]} | some pair in sort(pairs)]) if {
	pairs := [[object.get(privilege, "embargo_hours", 168), privilege.ts_group_id] |
		some privilege in input.user.ts_privileges
	]
}

ts_group_embargo := hours if {
	input.user.ts_privileges
	hours := group_hours
	hours != {}
}

else := null

time_window := {"restrict_hours": 8} if input.user.persona == "dam_operator"

else := null
