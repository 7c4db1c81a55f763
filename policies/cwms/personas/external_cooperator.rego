# A partner outside: named parameters, until the partnership ends.
package cwms.authz

external_cooperator := external_cooperator_read if {
	input.resource == "timeseries"
	input.action == "read"
	cooperates_here
}

else := external_cooperator_entry if {
	input.resource == "timeseries"
	input.action == "create"
	"external_cooperator" in roles_here
}

# Reading needs no office; one that is named must be his.
cooperates_here if not input.context.office_id

else if "external_cooperator" in roles_here

external_cooperator_read := bad("parameter_not_permitted") if not parameter_permitted

else := bad("classification_missing") if not input.context.classification

else := bad("classification_not_permitted") if input.context.classification == "sensitive"

else := partnership if not partnership.ok

else := object.union(embargo, {"ttl": min([partnership.ttl, embargo.ttl])})

external_cooperator_entry := partnership if parameter_permitted

else := bad("parameter_not_permitted")

parameter_permitted if input.context.parameter in input.user.allowed_parameters
