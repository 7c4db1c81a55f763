# Anyone, also without a credential.
package cwms.authz

public := good if {
	input.action == "read"
	input.resource in {"health", "ready", "metrics", "offices", "units", "parameters", "timezones"}
}

else := good if {
	input.action == "read"
	input.resource == "locations"
	input.context.classification == "public"
}

else := embargo if {
	input.action == "read"
	input.resource == "timeseries"
	input.context.classification == "public"
}
