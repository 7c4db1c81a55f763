package noop

decision := {"allow": true, "reason": "noop"}
