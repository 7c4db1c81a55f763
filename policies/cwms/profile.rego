# The user API's answer, or the token's claims where there is no user API, as the user context that
# the policies read. Undefined when the profile is not usable: then nobody is let in on it.
package cwms.profile

user := object.union_n([person, optional, expiry, {
	"roles": sort({role | some held in profile.roles; some role in held}),
	"offices": offices,
	"office_roles": profile.roles,
	"primary_office": primary_office,
	"ts_privileges": ts_privileges,
}]) if {
	usable
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

profile := input.profile

# A profile that is there but wrong is never replaced by claims.
profile_given if "profile" in object.keys(input)

# What the profile may say beside name, roles and privileges: its field, ours, and the type.
optional_fields := {
	"persona": ["persona", "string"],
	"region": ["region", "string"],
	"timezone": ["timezone", "string"],
	"shift-start": ["shift_start", "number"],
	"shift-end": ["shift_end", "number"],
	"allowed-parameters": ["allowed_parameters", "array"],
}

usable if {
	person
	offices
	ts_privileges
	expiry
	count(wrong_fields) == 0
}

wrong_fields := {field |
	some field, [_, type] in optional_fields
	type_name(profile[field]) != type
	profile[field] != null
}

optional := {name: profile[field] |
	some field, [name, type] in optional_fields
	type_name(profile[field]) == type
}

person := {"id": name, "username": name, "email": email} if {
	name := profile["user-name"]
	is_string(name)
	name != ""
}

email := profile.email if is_string(profile.email)

else := concat("", [lower(profile["user-name"]), "@usace.mil"])

# {office: [role, …]}. An office "*" would read as all offices in the backend.
offices := [name | some name, _ in profile.roles] if {
	is_object(profile.roles)
	every name, held in profile.roles {
		name != "*"
		is_array(held)
		every role in held {
			is_string(role)
		}
	}
}

primary_office := profile["primary-office"] if profile["primary-office"] in offices

else := offices[0] if count(offices) > 0

else := "HQ"

# An entry that is not understood makes the profile unusable: leaving it out would lift its embargo.
ts_privileges := [] if object.get(profile, "ts-group-privileges", null) == null

else := mapped if {
	given := profile["ts-group-privileges"]
	is_array(given)
	mapped := [entry |
		some raw in given
		entry := privilege(raw)
	]
	count(mapped) == count(given)
}

privilege(raw) := {
	"ts_group_code": raw["ts-group-code"],
	"ts_group_id": raw["ts-group-id"],
	"privilege": raw.privilege,
	"embargo_hours": hours,
} if {
	is_string(raw["ts-group-id"])
	raw.privilege in {"read", "write", "read-write", "none"}
	hours := embargo_hours(raw)
	is_number(hours)
	hours >= 0
}

# 168 hours where the profile gives none.
embargo_hours(raw) := 168 if object.get(raw, "embargo-hours", null) == null

else := raw["embargo-hours"]

# RFC 3339 in the profile, nanoseconds for the rules.
expiry := {} if object.get(profile, "partnership-expiry", null) == null

else := {"partnership_expiry_ns": moment} if moment := time.parse_rfc3339_ns(profile["partnership-expiry"])

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
