"""What we hold ourselves to (load/budgets.json), and how far it is met."""

import json
import statistics

from .parts import ROOT


def figure(results, spec, variant, case=None):
    found = results[spec["scenario"]]["cases"][case or spec["case"]][variant]["figures"]
    return found[spec["what"]]


def pairs(results, spec):
    """The figure of both variants, round by round where both have as many."""
    mine, theirs = (figure(results, spec, variant) for variant in spec["of"])
    if len(mine["all"]) == len(theirs["all"]):
        return list(zip(mine["all"], theirs["all"]))
    return [(mine["median"], theirs["median"])]


def measured(results, spec):
    """The value, with the spread where there is one."""
    kind = spec["as"]
    if kind == "ratio":
        values = [mine / theirs for mine, theirs in pairs(results, spec)]
    elif kind == "difference":
        values = [mine - theirs for mine, theirs in pairs(results, spec)]
    elif kind == "growth":
        cases = results[spec["scenario"]]["cases"]
        if "variants" in spec:
            first, last = (figure(results, spec, variant)["median"] for variant in spec["variants"])
        else:
            names = list(cases)
            first, last = (figure(results, spec, "portcullis", case)["median"] for case in (names[0], names[-1]))
        values = [last / first]
    else:
        values = [results[spec["scenario"]]["extra"][spec["what"]]]
    return statistics.median(values), min(values), max(values)


def judge(results):
    rows = []
    for spec in json.loads((ROOT / "load/budgets.json").read_text(encoding="utf-8")):
        row = {"name": spec["name"], "target": f"{spec['op']} {spec['target']}{spec.get('unit', '')}", "measured": None,
               "verdict": "not measured"}
        try:
            value, low, high = measured(results, spec)
            row |= {"measured": value, "low": low, "high": high, "unit": spec.get("unit", "")}
            met = value >= spec["target"] if spec["op"] == "≥" else value <= spec["target"]
            row["verdict"] = "met" if met else "missed"
        except (KeyError, IndexError, ZeroDivisionError, statistics.StatisticsError):
            pass
        rows.append(row)
    return rows
