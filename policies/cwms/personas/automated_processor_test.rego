package cwms.authz_test

computed := {"data_source": "CALCULATED", "calculation_metadata": {"script": "a"}}

test_automated_processor_reads_sources if {
	every source in ["AUTOMATED", "MANUAL"] {
		allowed(ask(processor, "read", "timeseries", {"data_source": source, "office_id": "SWT"}), "automated_processor")
		context := {"data_source": source, "ts_group_id": "X", "timestamp_ns": at - hour}
		denied(ask(processor, "read", "timeseries", context), "embargoed")
	}
	denied(ask(processor, "read", "timeseries", {"data_source": "CALCULATED"}), "data_source_not_permitted")
	denied(ask(processor, "read", "timeseries", {}), "data_source_not_permitted")
	denied(ask(processor, "read", "levels", {"data_source": "MANUAL"}), "office_missing")
}

test_automated_processor_says_how_it_computed if {
	every action in ["create", "update"] {
		allowed(ask(processor, action, "timeseries", computed), "automated_processor")
		denied(ask(processor, action, "timeseries", {"data_source": "CALCULATED"}), "calculation_metadata_missing")
		manual := object.union(computed, {"data_source": "MANUAL"})
		denied(ask(processor, action, "timeseries", manual), "data_source_not_permitted")
	}
	denied(ask(processor, "create", "levels", computed), "office_missing")
	denied(ask(processor, "delete", "timeseries", computed), "office_missing")
}
