# Undefined, false, absent and default-only, as a policy author meets them.
package golden.undefined

else_true := input.y if {
	true
} else if input.ok

default only_default := {"result": false}

as_text := "true"

as_number := 1

not_missing if not input.missing.x

not_missing_false if not input.flag

out[input.a][input.b] := 1

names contains name if some name in input.names

default fallback := false

fallback if input.ok

always_false := false

chain := 1 if {
	input.n > 10
} else := 2 if {
	input.n > 5
} else := 3

uses_undefined if input.nope.deeper == 1

negated_undefined if not input.nope.deeper == 1

default f(_) := "default"

f(x) := "one" if x == 1

default_function := [f(1), f(2)]

function_undefined := g(input.n)

g(x) := x if x > 100

every_empty if {
	every x in input.none_there {
		x > 0
	}
}

every_list if {
	every x in input.list {
		x > 0
	}
}

null_value := null

null_input := input.null

array_of_undefined := [input.nope]

object_of_undefined := {"a": input.nope}

set_with_undefined := {x | x := [1, input.nope][_]}

compared := [x | some x in [input.ok == true, input.n == 7, input.flag != true]]

two_bodies if input.ok

two_bodies if input.n == 7

conflict := 1 if input.ok

conflict := 2 if input.n == 7

function_conflict := h(input.n)

h(x) := 1 if x > 0

h(x) := 2 if x > 1

with_input := r if {
	r := chain with input.n as 6
}

with_data := r if {
	r := data.golden.values.limit with data.golden.values.limit as 5
}

data_value := data.golden.values.limit

data_missing := data.golden.values.nothing

deep_object.a.b := input.n

deep_object.a.c := 2 if input.ok

membership if "a" in input.names

not_member if not "a" in input.names

member_of_object if 7 in input

key_membership if "ok", true in input

some_key contains k if {
	some k, v in input
	v == true
}

object_rule[k] := v if some k, v in input.pairs

set_diff := {"a", "b"} - {n | some n in input.names}

set_ops := [{"a"} | {"b"}, {"a", "b"} & {"b"}]

unify := x if [x, 2] = [input.n, 2]

unify_object := x if {"a": x, "b": 2} = {"a": 1, "b": 2}

no_unify := x if [x, 3] = [input.n, 2]
