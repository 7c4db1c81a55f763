# Works at a dam: reads the own office's data, enters readings by hand within the shift.
package cwms.authz

dam_operator := embargo if {
	input.action == "read"
	input.resource in {"timeseries", "measurements", "levels", "gates", "locations"}
	"dam_operator" in roles_here
}

else := dam_operator_entry if {
	input.action in {"create", "update"}
	input.resource in {"timeseries", "measurements"}
	"dam_operator" in roles_here
}

dam_operator_entry := bad("data_source_not_permitted") if not input.context.data_source == "MANUAL"

else := shift if input.action == "create"

else := modifiable if not modifiable.ok

else := object.union(shift, {"ttl": min([modifiable.ttl, shift.ttl])})
