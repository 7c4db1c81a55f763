package cwms.authz_test

delivery := {"office_id": "SPK", "data_source": "AUTOMATED"}

by_key(asked) := object.union(asked, {"identity": {"method": "api_key"}})

test_automated_collector_delivers_with_its_key if {
	allowed(answer(by_key(question(collector, "create", "timeseries", delivery))), "automated_collector")
	denied(answer(by_key(question(collector, "update", "timeseries", delivery))), "not_permitted")
	denied(answer(by_key(question(collector, "create", "levels", delivery))), "not_permitted")
	foreign := object.union(delivery, {"office_id": "SWT"})
	denied(answer(by_key(question(collector, "create", "timeseries", foreign))), "office_not_yours")
	manual := object.union(delivery, {"data_source": "MANUAL"})
	denied(answer(by_key(question(collector, "create", "timeseries", manual))), "data_source_not_permitted")
}

# How it authenticated is the core's word: a profile or a claim that says otherwise changes nothing.
test_automated_collector_without_a_key_is_denied if {
	claiming := object.union(collector, {"auth_method": "api_key"})
	asked := question(claiming, "create", "timeseries", object.union(delivery, {"auth_method": "api_key"}))
	denied(answer(asked), "api_key_required")
	denied(answer(object.union(asked, {"token": {"auth_method": "api_key"}})), "api_key_required")
}
