# The user API's answer, or the token's claims where there is no user API, as the user context that
# the policies read. Undefined when the profile is not usable: then nobody is let in on it.
package cwms.profile

user := object.union_n([{said.name: said.value | some said in further}, expiry, {
	"id": name,
	"username": name,
	"email": email,
	"roles": sort({role | some held in roles; some role in held}),
	"offices": names,
	"office_roles": roles,
	"primary_office": primary_office,
	"ts_privileges": ts_privileges,
}]) if {
	name := input.profile["user-name"]
	is_string(name)
	name != ""
	every said in further {
		type_name(said.value) == said.type
	}
	names := offices
	roles := input.profile.roles
}

else := object.union_n([claimed_email, {
	"id": claimed_name,
	"username": claimed_name,
	"roles": claimed_roles,
	"offices": [],
	"primary_office": "HQ",
}]) if {
	not profile_given
}

# A profile that is there but wrong is never replaced by claims.
profile_given if "profile" in object.keys(input)

# What the profile says beside name, roles and privileges: our name of it, and the type that it must
# have.
further := [{"name": name, "value": value, "type": type} |
	some field, [name, type] in {
		"persona": ["persona", "string"],
		"region": ["region", "string"],
		"timezone": ["timezone", "string"],
		"shift-start": ["shift_start", "number"],
		"shift-end": ["shift_end", "number"],
		"allowed-parameters": ["allowed_parameters", "array"],
	}
	value := input.profile[field]
	value != null
]

email := input.profile.email if is_string(input.profile.email)

else := concat("", [lower(input.profile["user-name"]), "@usace.mil"])

# Roles are {office: [role, …]}. An office "*" would read as all offices in the backend.
offices := [name | some name, _ in input.profile.roles] if {
	is_object(input.profile.roles)
	every name, held in input.profile.roles {
		name != "*"
		is_array(held)
		every role in held {
			is_string(role)
		}
	}
}

primary_office := given if {
	given := input.profile["primary-office"]
	given in offices
}

else := first if first := offices[0]

else := "HQ"

# An entry that is not understood makes the profile unusable: leaving it out would lift its embargo.
ts_privileges := mapped if {
	raws := input.profile["ts-group-privileges"]
	is_array(raws)
	mapped := [{
		"ts_group_code": raw["ts-group-code"],
		"ts_group_id": raw["ts-group-id"],
		"privilege": raw.privilege,
		"embargo_hours": hours,
	} |
		some raw in raws
		is_string(raw["ts-group-id"])
		raw.privilege in {"read", "write", "read-write", "none"}

		# 168 hours where the profile gives none.
		hours := [given | some given in [object.get(raw, "embargo-hours", null), 168]; given != null][0]
		is_number(hours)
		hours >= 0
	]
	count(mapped) == count(raws)
}

else := [] if object.get(input.profile, "ts-group-privileges", null) == null

# RFC 3339 in the profile, nanoseconds for the rules.
expiry := {} if object.get(input.profile, "partnership-expiry", null) == null

else := {"partnership_expiry_ns": moment} if moment := time.parse_rfc3339_ns(input.profile["partnership-expiry"])

# From claims: a name and flat roles, no office.
claimed_name := name if {
	name := input.token.preferred_username
	is_string(name)
	name != ""
}

else := input.identity.subject

claimed_roles := held if {
	held := input.token.realm_access.roles
	every role in held {
		is_string(role)
	}
}

else := []

claimed_email := {"email": input.token.email} if is_string(input.token.email)

else := {}
