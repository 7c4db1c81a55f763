# Computes time series of every office from others, and says how.
package cwms.authz

automated_processor := embargo if {
	input.resource == "timeseries"
	input.action == "read"
	input.context.data_source in {"AUTOMATED", "MANUAL"}
}

else := automated_processor_result if {
	input.resource == "timeseries"
	input.action in {"create", "update"}
	input.context.data_source == "CALCULATED"
}

else := bad("data_source_not_permitted") if {
	input.resource == "timeseries"
	input.action in {"read", "create", "update"}
}

automated_processor_result := good if input.context.calculation_metadata

else := bad("calculation_metadata_missing")
