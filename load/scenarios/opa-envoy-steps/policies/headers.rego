package headers

decision := {"allow": true, "reason": "named", "headers": {"x-ext-auth-allow": "yes"}}
