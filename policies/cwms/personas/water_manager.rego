# Plans with the own office's data; never deletes.
package cwms.authz

water_manager := good if {
	input.action == "read"
	input.resource in {"timeseries", "locations", "forecasts", "models", "scenarios", "ratings", "levels"}
	"water_manager" in roles_here
}

else := good if {
	input.action in {"create", "update"}
	input.resource in {"timeseries", "locations", "forecasts", "models", "scenarios"}
	"water_manager" in roles_here
}
