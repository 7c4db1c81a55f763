# A station that delivers readings. How it authenticated is the core's word, never a claim's.
package cwms.authz

automated_collector := automated_collector_entry if {
	input.action == "create"
	input.resource == "timeseries"
	"automated_collector" in roles_here
}

automated_collector_entry := bad("data_source_not_permitted") if {
	not input.context.data_source == "AUTOMATED"
}

else := good if input.identity.method == "api_key"

else := bad("api_key_required")
