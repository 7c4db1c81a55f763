# For tests only: a policy whose answer is what the path asks for.
package answers

decision := conflict if input.context.segments[1] == "failing"

else := answer[input.context.segments[1]]

ours := {"x-cwms-auth-context": "ours"}

three := {"set-cookie": ["a=1; Path=/", "b=2; HttpOnly", "c=3"]}

answer["plain"] := true

answer["nothing"] := false

answer["cookies"] := {"allow": true, "headers": ours, "response_headers": three}

answer["denied-cookies"] := {"allow": false, "reason": "told_so", "response_headers": three}

answer["teapot"] := {"allow": false, "status": 418, "reason": "teapot"}

answer["success"] := {"allow": false, "status": 200}

answer["prose"] := {"allow": false, "reason": "Not <b>today</b>"}

answer["undeclared"] := {"allow": true, "headers": {"x-other": "1"}}

answer["injected"] := {"allow": true, "headers": {"x-cwms-auth-context": "a\r\nx-roles: admin"}}

answer["huge"] := {"allow": true, "headers": {"x-cwms-auth-context": concat("", [thousand, thousand, thousand, thousand, thousand, thousand, thousand])}}

hundred := "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

thousand := concat("", [hundred, hundred, hundred, hundred, hundred, hundred, hundred, hundred, hundred, hundred])

answer["shape"] := {"allowed": true}

conflict := 1 if input.context.method

conflict := 2 if input.context.path

answer["peer"] := {"allow": true, "headers": {"x-cwms-auth-context": input.context.peer}} if input.context.peer
