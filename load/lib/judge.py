"""Void or valid: what the subject and the backend counted, beside what the driver was answered."""

import json
import re

from .parts import get

SERIES = re.compile(r"^(\w+)\{(.*)\} ([0-9.e+]+)")


def parse(text):
    """Counters by (name, labels)."""
    found = {}
    for line in text.splitlines():
        if match := SERIES.match(line):
            labels = tuple(sorted(re.findall(r'(\w+)="([^"]*)"', match[2])))
            found[match[1], labels] = float(match[3])
    return found


def metrics(port):
    return parse(get(port, "/metrics"))


def snapshot(variant, backend):
    ours = variant["server"].admin if variant["ours"] else None
    return {"metrics": metrics(ours) if ours else {}, "stats": json.loads(get(backend.port, "/stats"))}


def grown(before, after, name, **labels):
    wanted, total = set(labels.items()), 0
    for (series, own), value in after["metrics"].items():
        if series == name and wanted <= set(own):
            total += value - before["metrics"].get((series, own), 0)
    return round(total)


def judge(variant, case, result, before, after):
    """Why the figure does not count, beyond what the driver said."""
    void = counted(variant, case, result, before, after) if variant["ours"] else []
    # What answers as Portcullis did sets its header too.
    sets = variant["ours"] or "like" in variant["spec"]
    if sets and "header" in case and variant["spec"]["door"] == "envoy":
        void += header(case["header"], result["answered"], before["stats"], after["stats"])
    return void


def counted(variant, case, result, before, after):
    """What Portcullis counted otherwise than the driver."""
    void, answered = [], result["answered"]
    if variant["spec"]["door"] != "api":
        checks = grown(before, after, "portcullis_checks_total")
        if checks != answered:
            void.append(f"{answered} answers but {checks} Checks")
        passed = sum(answer["count"] for answer in result["answers"] if answer["status"] < 400)
        allowed = grown(before, after, "portcullis_checks_total", outcome="allow")
        if allowed != passed:
            void.append(f"{passed} requests passed but {allowed} Checks were an allow")
    for cache in case.get("caches", []):
        hits, misses = (grown(before, after, "portcullis_cache_requests_total", cache=cache, result=result_is)
                        for result_is in ("hit", "miss"))
        if hits != answered or misses:
            void.append(f"{answered} Checks, but {hits} hits and {misses} misses of {cache}")
    return void


def header(parts, answered, before, after):
    """The backend saw the one header on every request, with the expected content."""
    values = {value: seen - before["values"].get(value, 0) for value, seen in after["values"].items()}
    values = {value: seen for value, seen in values.items() if seen}
    if before["absent"] != after["absent"] or len(values) != 1:
        return [f"the backend saw {len(values)} different headers, and none {after['absent'] - before['absent']} times"]
    value, seen = values.popitem()
    if not all(part in value for part in parts):
        return [f"the backend saw another context: {value}"]
    return [] if seen == answered else [f"{answered} answers but {seen} headers"]
