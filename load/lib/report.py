"""The report: report.md, report.json and its plots."""

import itertools
import json

from . import budgets, svg
from .parts import ROOT

HEAD = ("variant", "rounds", "requests/s", "(lowest .. highest)", "median ms", "p95 ms", "p99 ms", "p99.9 ms",
        "CPU µs: Envoy", "server", "backend", "peak MiB")
YARDSTICKS = ("always_allow", "same_answer")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def number(figures, name, digits=0):
    return f"{figures[name]['median']:,.{digits}f}" if name in figures else "–"


def case_table(variants):
    rows = []
    for name, found in variants.items():
        figures = found["figures"]
        spread = f"{figures['rate']['low']:,.0f} .. {figures['rate']['high']:,.0f}" if figures else "void"
        busy = " †" if any(figures.get("driver_saturated", {}).get("all", [])) else ""
        rows.append((name, found["rounds"], number(figures, "rate") + busy, spread,
                     *(number(figures, what, 2) for what in ("p50_ms", "p95_ms", "p99_ms", "p999_ms")),
                     *(number(figures, what) for what in ("envoy_cpu_us", "server_cpu_us", "backend_cpu_us")),
                     number(figures, "peak_mib", 1)))
    return table(HEAD, rows)


def published(pointers, figures):
    """What the systems to beat say of themselves, by JSON pointers into their file."""
    lines = []
    for pointer in pointers:
        value = figures
        for key in pointer.strip("/").split("/"):
            value = value[int(key)] if isinstance(value, list) else value.get(key)
        lines.append(f"- `{pointer.strip('/')}`: `{json.dumps(value)}`")
    return lines


def ratios(variants):
    """Of throughput, or at a given rate of the median, to the yardsticks, round by round."""
    lines = []
    for base, name in itertools.product(YARDSTICKS, variants):
        theirs, mine = (variants.get(which, {}).get("figures") for which in (base, name))
        if name in ("alone", *YARDSTICKS) or not theirs or not mine:
            continue
        what, word = ("p50_ms", "median") if "intended" in mine else ("rate", "throughput")
        if len(theirs[what]["all"]) == len(mine[what]["all"]):
            each = [a / b for a, b in zip(mine[what]["all"], theirs[what]["all"])]
            lines.append(f"`{name}` / `{base}`, {word} by round: " + " ".join(f"{ratio:.3f}" for ratio in each))
    return lines


def section(name, found, source, out):
    lines = [f"## {name}\n", found["about"] + "\n"]
    if "made" in found:
        lines.append(f"Made {found['made']}.\n")
    if found["void"]:
        return lines + [f"Not run: {found['void']}\n"]
    for case, variants in found["cases"].items():
        lines += [f"**{case}**\n", case_table(variants)]
        lines += [line + "\n" for line in ratios(variants)]
        for variant, result in variants.items():
            if result["void"]:
                lines.append(f"Void ({variant}, {len(result['void'])} of its rounds' reasons): {result['void'][0]}\n")
            if len(result["answers"]) > 1:
                lines.append(f"Answers ({variant}): " + "; ".join(f"{key} × {n}" for key, n in sorted(result["answers"].items())) + "\n")
        plotted = [(variant, result["curve"]) for variant, result in variants.items() if result["curve"]]
        if plotted:
            file = f"{name}-{case}.svg".replace(" ", "_").replace("/", "_per_").replace("%", "pct")
            (out / file).write_text(svg.curves(f"{name}, {case}", plotted), encoding="utf-8")
            lines.append(f"![latency]({file})\n")
    rows = [(f"{case}: {variant}" if len(found["cases"]) > 1 else variant, *(result["figures"]["rate"][k] for k in ("median", "low", "high")))
            for case, variants in found["cases"].items() for variant, result in variants.items() if result["figures"]]
    if rows:
        (out / f"{name}-rate.svg").write_text(svg.bars(name, "requests a second", rows), encoding="utf-8")
        lines.append(f"![requests a second]({name}-rate.svg)\n")
    if found["extra"]:
        lines.append("```json\n" + json.dumps(found["extra"], indent=1) + "\n```\n")
    if source.get("published"):
        lines.append("Published of the systems in use today (their hardware, not this machine):\n")
        lines += published(source["published"], PUBLISHED) + [""]
    return lines


PUBLISHED = json.loads((ROOT / "load/published.json").read_text(encoding="utf-8"))


def write(out, results, sources, machine, options):
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.svg"):
        old.unlink()
    judged = budgets.judge(results)
    lines = ["# Load report\n", f"Made by `load/run` ({options}); `load/README.md` says what is measured and how to make it again.\n",
             table(("machine", ""), [(key.replace("_", " "), value) for key, value in machine.items()]),
             "## Budgets\n"]
    rows = []
    for row in judged:
        value = "–" if row["measured"] is None else f"{row['measured']:.3g}{row['unit']} ({row['low']:.3g} .. {row['high']:.3g})"
        rows.append((row["name"], row["target"], value, row["verdict"]))
    lines.append(table(("budget", "target", "measured (lowest .. highest round)", ""), rows))
    lines.append("Driver, Envoy, server and backend share the machine's cores. † the driver had no CPU time left: the rate is a "
                 "lower bound, and the CPU time of the server is the figure to compare.\n")
    for name, found in results.items():
        lines += section(name, found, sources[name], out)
    (out / "report.md").write_text("\n".join(lines), encoding="utf-8")
    kept = {"machine": machine, "options": options, "budgets": judged, "scenarios": results}
    (out / "report.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return judged
