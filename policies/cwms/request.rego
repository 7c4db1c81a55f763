# Who asks: the parts of the input that several rules read.
package cwms.authz

# The core's word; neither a claim nor a profile changes it.
anonymous if input.identity.method == "none"

else if not input.identity.method

else if not input.user

# Flat union over all offices.
roles := input.user.roles if input.user.roles

else := [role | some held in input.user.office_roles; some role in held]

# Most callers: nothing widens what they may access, sees or escape. One question instead of the
# dozen that follow from it.
ordinary if {
	input.user
	widening := {"system_admin", "hec_employee", "automated_processor", "data_manager", "water_manager"}
	[role | some role in roles; role in widening] == []
	[persona | persona := input.user.persona; persona in widening] == []
}

# Roles that rule over every office.
admin := "system_admin" if "system_admin" in roles

else := "hec_employee" if "hec_employee" in roles

# A claim that holds whatever the time, and one that no passing of time mends.
good := {"ok": true, "ttl": 300}

bad(reason) := {"ok": false, "reason": reason, "ttl": 300}
