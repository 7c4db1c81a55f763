# Looks after the data of the own offices and, as a regional one, of the region's offices. A delete
# needs the approval of somebody else.
package cwms.authz

data_manager := good if {
	input.action in {"read", "create", "update"}
	input.resource in {"timeseries", "locations", "catalogs", "ratings", "measurements", "levels"}
	manages_data
}

else := data_manager_delete if {
	input.action == "delete"
	input.resource in {"timeseries", "locations", "catalogs", "ratings"}
	manages_data
}

data_manager_delete := bad("approval_missing") if {
	not input.context.approval_status == "approved"
}

else := bad("approver_missing") if not approver

else := bad("approver_is_requester") if approver in own_names

else := good

approver := lower(input.context.approver_id) if input.context.approver_id != ""

own_names := {
	lower(input.user.id),
	lower(object.get(input.user, "username", "")),
	lower(object.get(input.identity, "subject", "")),
}
