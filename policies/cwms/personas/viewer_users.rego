# Looks at the own office's data.
package cwms.authz

viewer_users := good if {
	input.action == "read"
	input.resource in {"offices", "units", "parameters", "timezones"}
}

else := embargo if {
	input.action == "read"
	input.resource in {"timeseries", "locations", "levels"}
	"Viewer Users" in roles_here
}
