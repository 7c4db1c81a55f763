# Errors of built-in functions are undefined.
package golden.strict

count_null := count(input.null)

count_number := count(input.seven)

to_number_x := to_number(input.x)

to_number_values := [to_number("7"), to_number("-1.5"), to_number(true), to_number(false), to_number("12")]

to_number_null := to_number(input.null)

to_number_space := to_number(" 7")

to_number_hex := to_number("0x7")

to_number_empty := to_number("")

divide_zero := 1 / input.zero

modulo_zero := 1 % input.zero

bad_regex := regex.match("(", "a")

bad_regex_valid := regex.is_valid("(")

bad_time := time.parse_rfc3339_ns("yesterday")

good_time := time.parse_rfc3339_ns("2026-11-30T12:00:00.25Z")

offset_time := time.parse_rfc3339_ns("2026-11-30T12:00:00+02:00")

bad_duration := time.parse_duration_ns("soon")

good_duration := [time.parse_duration_ns("168h"), time.parse_duration_ns("1m30s"), time.parse_duration_ns("-1.5s")]

bad_cidr := net.cidr_contains("300.0.0.0/8", "10.0.0.1")

good_cidr := [net.cidr_contains("10.0.0.0/8", "10.1.2.3"), net.cidr_contains("10.0.0.0/8", "11.0.0.1"), net.cidr_contains("2001:db8::/32", "2001:db8::1")]

bad_json := json.unmarshal("{")

negated_error if not startswith(input.null, "a")

or_error if {
	count(input.null) == 1
} else if input.zero == 0

error_in_list := [x | some y in [1, 0, 2]; x := 4 / y]

error_in_function := f(0)

f(x) := 1 / x

f(x) := "other" if x == 0

lower_number := lower(input.seven)

split_number := split(input.seven, ",")

concat_number := concat(",", ["a", input.seven])

concat_string := concat(",", input.ab)

object_get_array := object.get(input.list, 0, "none")

substring_negative := substring("abc", -1, 1)

substring_over := substring("abc", 1, 100)

substring_rest := substring("abc", 1, -1)

substring_start := substring("abc", 5, 1)

max_empty := max([])

min_empty := min(set())

sum_strings := sum([input.ab])

sum_empty := sum([])

product_empty := product([])

array_slice := [array.slice([1, 2, 3], 1, 2), array.slice([1, 2, 3], -1, 9), array.slice([1, 2, 3], 2, 1)]

startswith_null := startswith(input.null, "a")

trim_number := trim(input.seven, "a")

format_int_bad := format_int(10, 7)

format_int_good := [format_int(255, 16), format_int(5, 2), format_int(-8, 8), format_int(10, 10)]

sort_number := sort(input.seven)

sort_mixed := sort(["b", 2, true, null, [1], {"a": 1}, 1, false, "a", 1.5])

sprintf_few := sprintf("%s %s", ["a"])

sprintf_many := sprintf("%s", ["a", "b"])

sprintf_no_list := sprintf("%s", input.ab)

sprintf_kinds := [sprintf("%s|%v|%d|%%", ["a", {"k": [1, "x"]}, 7]), sprintf("%d|%d|%s|%s", [1.5, "a", 7, 2.5]), sprintf("%s|%v|%s|%v", [{"a", "b"}, set(), true, input.null]), sprintf("%v|%s|%d", [input.null, [null, "é\"", 1.5], 123456789012345678901234567890]), sprintf("%v", [1.5]), sprintf("%s", [1, "a", [2]])]

union_not_sets := union({input.seven})

weekday := time.weekday(1700000000000000000)

clock_zone := time.clock([1700000000000000000, "America/New_York"])

clock_bad_zone := time.clock([1700000000000000000, "Nowhere/Land"])

date := time.date(1700000000000000000)

add_date := time.add_date(1700000000000000000, 0, 1, -1)

diff := time.diff(1700000000000000000, 1600000000000000000)
