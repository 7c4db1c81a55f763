# Where the caller may act.
package cwms.authz

# Flat union; nobody's own office is "*", which the backend would read as all.
offices := input.user.offices if {
	input.user.offices
	not "*" in input.user.offices
}

else := [name | some name, _ in input.user.office_roles; name != "*"]

# The roles that count for this request: those held at the office asked for, where the user context
# says what is held where, else all of them at any of his offices.
roles_here := held if held := input.user.office_roles[input.context.office_id]

else := roles if {
	not input.user.office_roles
	input.context.office_id in offices
}

# geography/data.json. Where it lies among the data depends on which folder was loaded, policies or
# policies/cwms.
geography := found if found := data.cwms.geography

else := found if found := data.geography

# A regional data manager works in all offices of his region. Undefined for everybody else.
region_offices := names if {
	input.user.persona == "data_manager"
	"data_manager" in roles
	names := geography.regions[input.user.region]
}

manages_data if "data_manager" in roles_here

else if input.context.office_id in region_offices

# Not bound to offices.
everywhere if admin

else if "automated_processor" in roles

else if {
	input.user.persona == "automated_processor"
	not input.user.office_roles
}

# All offices that the caller may access, before he names one.
entitled := offices if ordinary

else := ["*"] if everywhere

else := array.concat(offices, [name | some name in region_offices; not name in offices]) if region_offices

else := offices
