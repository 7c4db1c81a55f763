"""Judges a run of load/compare: void or valid, then the table and the ratio.

Reads rounds, metrics.{before,after}.N and stats.{before,after}.N from the folder given; writes
`verdict`, whose last line is the ratio.
"""

import json
import re
import statistics
import sys

folder, connections = sys.argv[1], int(sys.argv[2])
SERIES = re.compile(r"^(\w+)\{(.*)\} ([0-9.e+]+)")
# What the warm path reads, in the order of the journey.
CACHES = ("token", "context", "decision")


def void(why):
    sys.exit(f"void: {why}")


def metrics(name):
    """Counters by (name, {label: value} as sorted items)."""
    found = {}
    for line in open(f"{folder}/metrics.{name}", encoding="utf-8"):
        if match := SERIES.match(line):
            labels = tuple(sorted(re.findall(r'(\w+)="([^"]*)"', match[2])))
            found[match[1], labels] = float(match[3])
    return found


def grown(before, after, name, **labels):
    wanted = set(labels.items())
    total = 0
    for (series, own), value in after.items():
        if series == name and wanted <= set(own):
            total += value - before.get((series, own), 0)
    return round(total)


def judge_round(number, requests):
    """Void unless every Check was an allow out of the caches and the backend saw our header."""
    before, after = metrics(f"before.{number}"), metrics(f"after.{number}")
    checks = grown(before, after, "portcullis_checks_total")
    allowed = grown(before, after, "portcullis_checks_total", outcome="allow")
    if checks != allowed:
        void(f"round {number}: {checks - allowed} of {checks} Checks were no allow")
    # wrk leaves its last requests unread.
    if not requests <= checks <= requests + 2 * connections:
        void(f"round {number}: {requests} requests but {checks} Checks")
    for cache in CACHES:
        hits = grown(before, after, "portcullis_cache_requests_total", cache=cache, result="hit")
        misses = grown(before, after, "portcullis_cache_requests_total", cache=cache, result="miss")
        if hits != checks or misses != 0:
            void(f"round {number}: {checks} Checks, but {hits} hits and {misses} misses of {cache}")
    stats = [json.load(open(f"{folder}/stats.{when}.{number}", encoding="utf-8"))
             for when in ("before", "after")]
    values = {value: seen - stats[0]["values"].get(value, 0)
              for value, seen in stats[1]["values"].items()}
    values = {value: seen for value, seen in values.items() if seen}
    if stats[0]["absent"] != stats[1]["absent"] or len(values) != 1:
        void(f"round {number}: the backend saw {len(values)} different headers")
    value, seen = values.popitem()
    if '"id":"DAM.OPERATOR"' not in value or '"allowed_offices":["SPK"]' not in value:
        void(f"round {number}: the backend saw another context: {value}")
    if not requests <= seen <= requests + 2 * connections:
        void(f"round {number}: {requests} requests but {seen} headers")
    return value


rate, p50, p99, cpu, header = {}, {}, {}, {}, None
for line in open(f"{folder}/rounds", encoding="utf-8"):
    number, name, requests, seconds, median, tail, *used = line.split()
    rate.setdefault(name, []).append(int(requests) / float(seconds))
    p50.setdefault(name, []).append(float(median))
    p99.setdefault(name, []).append(float(tail))
    proxy, server, proxy_after, server_after = map(int, used)
    each = 1000 / max(int(requests), 1)
    cpu.setdefault(name, []).append(((proxy_after - proxy) * each, (server_after - server) * each))
    if name == "portcullis":
        header = judge_round(int(number), int(requests))

print(f"\n{'Envoy ...':<26}{'requests/s':>11}{'(lowest .. highest)':>24}{'median ms':>11}{'p99 ms':>9}{'CPU us: Envoy':>15}{'server':>8}")
for name, title in (("alone", "alone"), ("allow", "with always-allow"), ("portcullis", "with Portcullis, warm")):
    spread = f"({min(rate[name]):.0f} .. {max(rate[name]):.0f})"
    print(f"{title:<26}{statistics.median(rate[name]):>11.0f}{spread:>24}"
          f"{statistics.median(p50[name]):>11.2f}{statistics.median(p99[name]):>9.2f}"
          + "".join(f"{statistics.median(part):>{width}.0f}" for part, width in zip(zip(*cpu[name]), (15, 8))))
ratios = [mine / theirs for mine, theirs in zip(rate["portcullis"], rate["allow"], strict=True)]
print(f"\n{len(ratios)} rounds, {connections} connections; Portcullis / always-allow per round: "
      + " ".join(f"{ratio:.3f}" for ratio in ratios))
print(f"every answer 200; every Check found in the caches; the backend saw one header of {len(header)} bytes")
with open(f"{folder}/verdict", "w", encoding="utf-8") as verdict:
    verdict.write(f"warm_ratio={statistics.median(ratios):.2f}\n")
