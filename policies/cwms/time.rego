# Conditions that time changes: {"ok", "ttl", "reason"?}, where ttl is the number of whole seconds
# until it turns, at most 300, so that a cached answer equals a fresh one at any moment of its life.
# What should be a number is asked whether it is one: a comparison of unlike types has an answer.
package cwms.authz

# Whole seconds from now to a later moment.
until(moment) := min([300, floor(left / 1000000000)]) if {
	is_number(input.context.time_ns)
	left := moment - input.context.time_ns
	left >= 0
}

# Data is released when it is older than its embargo. Without the record's time the gate cannot
# tell, and the constraints in the header have the backend apply it.
embargo := {"ok": true, "ttl": 300} if not input.context.timestamp_ns

else := {"ok": true, "ttl": 300} if embargo_exempt

else := {"ok": true, "ttl": 300} if embargo_hours == 0

else := {"ok": true, "ttl": 300} if released < input.context.time_ns

else := {"ok": false, "reason": "embargoed", "ttl": until(released + 1)}

released := input.context.timestamp_ns + floor(embargo_hours * 3600000000000) if {
	is_number(input.context.timestamp_ns)
	is_number(embargo_hours)
}

embargo_hours := hours if hours := group_hours[input.context.ts_group_id]

else := 168 if input.context.ts_group_id

else := hours if some hours in embargo_rules

# A dam operator writes within his shift, [start, end) in full hours of his time zone. Only the
# operator's own persona has a shift; another one does not get around it.
shift := {"ok": true, "ttl": shift_turn} if on_shift

else := {"ok": false, "reason": "shift_over", "ttl": shift_turn} if is_boolean(on_shift)

else := {"ok": false, "reason": "shift_unknown", "ttl": 300}

on_shift := within if {
	input.user.persona == "dam_operator"
	is_number(input.user.shift_start)
	is_number(input.user.shift_end)
	local_hour := time.clock([input.context.time_ns, zone])[0]
	within := [input.user.shift_start <= local_hour, input.user.shift_end > local_hour] == [true, true]
}

zone := input.user.timezone if input.user.timezone

else := geography.timezones[input.context.office_id]

# The local hour, and with it a shift, turns only at a quarter of an hour of UTC: every zone's offset
# and its changes are multiples of it. So at most one turn lies within the next 300 seconds.
shift_turn := 300 if input.context.time_ns % 900000000000 <= 600000000000

else := 300 if {
	local_hour := time.clock([input.context.time_ns + 300000000000, zone])[0]
	ahead := [input.user.shift_start <= local_hour, input.user.shift_end > local_hour] == [true, true]
	ahead == on_shift
}

else := until((input.context.time_ns - (input.context.time_ns % 900000000000)) + 900000000000)

# A record may be changed for 24 hours.
modifiable := {"ok": true, "ttl": until(closes)} if {
	is_number(input.context.created_ns)
	closes := input.context.created_ns + 86400000000000
	closes > input.context.time_ns
}

else := {"ok": false, "reason": "record_too_old", "ttl": 300} if input.context.created_ns

else := {"ok": false, "reason": "record_age_unknown", "ttl": 300}

partnership := {"ok": true, "ttl": until(input.user.partnership_expiry_ns)} if {
	is_number(input.user.partnership_expiry_ns)
	input.user.partnership_expiry_ns > input.context.time_ns
}

else := {"ok": false, "reason": "partnership_over", "ttl": 300} if input.user.partnership_expiry_ns

else := {"ok": false, "reason": "partnership_unknown", "ttl": 300}
