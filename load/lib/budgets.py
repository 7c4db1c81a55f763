"""What we hold ourselves to (load/budgets.json), and how far it is met."""

import json
import statistics

from .parts import ROOT


def figure(results, spec, variant):
    cases = results[spec["scenario"]]["cases"]
    found = cases[[*cases][-1] if spec["case"] == "last" else spec["case"]][variant]["figures"]
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
