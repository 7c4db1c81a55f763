# Values: numbers with many digits, text, order.
package golden.values

limit := 3

big := input.big

big_plus := input.big + 1

big_times := input.big * input.big

big_equal if input.big == 123456789012345678901234567890

big_not_equal if input.big != 123456789012345678901234567891

sixty_four := [input.u64, input.u64 + 1, input.i64, input.i64 - 1]

decimals := [input.d1, input.d2, input.d3, 0.5 + 0.25, 1 / 3, 10 / 4, 10 / 5]

exponents := [input.e1, input.e2, 1e3, 2.50]

integers_as_floats := [1.0, input.f1, 3.0 == 3]

rounding := [round(2.5), round(-2.5), round(0.4), ceil(1.2), floor(-1.2), abs(-3)]

modulo := [7 % 3, -7 % 3, 7 % -3]

compare := [1 < 2, "a" < "b", null < false, false < true, true < 0, 1 < "a", "a" < [], [] < {}]

text := [upper("straße"), lower("ÀÉ"), count("é😀"), substring("é😀x", 1, 1), indexof("é😀x", "x"), indexof("abc", "z")]

split_text := [split("a,b,,c", ","), split("abc", ""), split("", ","), concat("-", {"b", "a"})]

trims := [trim("  a ", " "), trim_space("\t a\n"), trim_left("aab", "a"), trim_right("baa", "a"), trim_prefix("abc", "ab"), trim_suffix("abc", "bc")]

replaces := [replace("aaa", "a", "b"), replace("abc", "", "-"), replace("abc", "x", "y")]

reversed := [strings.reverse("é😀x"), array.reverse([1, 2, 3]), array.concat([1], [2])]

affixes := [strings.any_prefix_match("abc", ["x", "ab"]), strings.any_suffix_match(["abc"], {"bc"}), strings.count("cheese", "e"), indexof_n("banana", "a")]

objects := [object.get(input.o, "a", 0), object.get(input.o, ["n", "x"], 0), object.get(input.o, "z", "none"), object.keys(input.o), object.remove(input.o, ["a"]), object.filter(input.o, {"a"}), object.union(input.o, {"n": {"y": 2}}), object.union_n([{"a": 1}, {"a": 2}]), object.subset(input.o, {"a": 1})]

json_filter := [json.filter(input.o, ["n/x"]), json.remove(input.o, ["n/x"])]

sets := {3, 1, "b", "a", [2], null}

set_of_sets := {{2, 1}, {3}, set()}

keys := {1: "a", "b": 2, [1]: 3, null: 4, true: 5}

marshalled := [json.marshal({"b": [1, null, "é<"], "a": {"c": true}}), json.marshal({3, 1}), json.marshal(2.5), json.marshal("\u2028")]

unmarshalled := json.unmarshal("{\"big\": 123456789012345678901234567890, \"a\": [1.50, \"x\"]}")

json_valid := [json.is_valid("{}"), json.is_valid("{"), json.is_valid("1 2")]

types := [type_name(x) | some x in [1, "a", null, true, [], {}, set()]]

is_types := [is_number(1), is_string(1), is_null(input.null), is_boolean(false), is_array([]), is_object({}), is_set(set())]

aggregates := [sum([1, 2.5]), product([2, 3]), max([1, 5, 2]), min({"b", "a"}), count({"a": 1}), sort({3, 1, 2})]

bitwise := [bits.and(6, 3), bits.or(6, 3), bits.xor(6, 3), bits.negate(5)]

unions := [union({{1}, {2}}), intersection({{1, 2}, {2, 3}})]

patterns := [regex.match(`^a+$`, "aaa"), regex.match(`\d`, "x"), glob.match("*.example.test", ["."], "a.example.test"), glob.match("*", ["."], "a.b"), glob.match("**", ["."], "a.b"), glob.match("{a,b}?", [], "bx")]

nested_compr := {k: [v | some v in vs; v > 1] | some k, vs in {"a": [1, 2, 3], "b": [1]}}

walk_like := [x | x := input.o[_]]

raw := `a\n"b"`

escapes := "a\n\t\"\\\u00e9"
