# OPA takes the operands of what is negated out of the negation.
package golden.negation

call if not startswith(input.x, "a")

own_function if not f(input.x)

f(x) if is_string(x)

member if not "a" in input.x

equals if not input.x == 1

differs if not input.x != 1

unify if not input.x = 1

less if not input.x < 1

only_argument if not count(input.x)

rule_argument if not f(rule)

rule := input.x

plain_rule if not rule

plain_ref if not input.x.y

list_argument if not f([input.x])

index if not input.l[input.x]

list_equals if not [input.x] == [1]

object if not {"a": input.x}

rule_equals if not rule == 1

rule_index if not input.l[rule]

object_member if not "a" in {"a": input.x}

nested_call if not count(lower(input.x)) == 1

division if not 1 / input.n == 1

several if {
	x := 1
	not f(input.l[x]) # a comment
	not input.l[0] == "q"
	not startswith(
		input.x,
		"zz",
	)
}

in_comprehension := [y | some y in input.l; not startswith(y, "a")]

comprehension_argument if not count([y | y := input.x]) == 1

in_every if {
	every y in input.l {
		not startswith(y, input.x)
	}
}

with_value if {
	not startswith(input.x, "a") with input.x as "b"
}

else_body := 1 if not f(input.x)

else := 2 if not startswith(input.l[0], input.x)

else := 3

default g(_) := false

g(y) if not startswith(y, input.x)

in_function := g("abc")

# a comment that ends with if
after_comment if {
	# and one more, only if
	not f(input.x)
}

on_its_own_line if
	not f(input.x)

ifs := "not f(input.x) if"

rules contains "one" if not f(input.x)
