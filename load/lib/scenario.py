"""A scenario's data, played: every variant in every round, each first in its turn."""

import json
import re
import statistics
import subprocess

from . import judge
from .parts import RELEASE, ROOT, Stage, Void

SCENARIOS = ROOT / "load/scenarios"


def names():
    return sorted(path.parent.name for path in SCENARIOS.glob("*/scenario.json"))


def read(name):
    found = json.loads((SCENARIOS / name / "scenario.json").read_text(encoding="utf-8"))
    found["name"] = name
    return found


def generate(text, spec):
    """A configuration with as many routes more as `spec` says, before the first of the file."""
    count = (spec or {}).get("routes", 0)
    if not count:
        return text
    routes = "".join(
        f"- {{ name: r{n}, match: {{ path: \"/r{n}/things/{{id}}\" }}, access: optional, policy: {spec['policy']}, "
        f"resource: things, action: read }}\n" for n in range(count))
    return re.sub(r"^routes:\n", lambda match: match[0] + routes, text, count=1, flags=re.M)


class Play:
    """One scenario on its stage."""

    def __init__(self, scenario, options, folder, envoy):
        self.scenario, self.options = scenario, options
        self.stage = Stage(folder, envoy, options.port)
        self.variants, self.fresh = {}, 0
        self.plans = 0

    def set_up(self):
        scenario, stage = self.scenario, self.stage
        self.backend = stage.backend(scenario.get("watch"))
        ports = {"backend": self.backend.port}
        if "opa" in scenario:
            ports["opa"] = stage.opa(scenario["opa"]).port
        # Nothing listens there: a Redis that is down.
        ports["redis"] = stage.port()
        self.tokens = {name: stage.tokens(name, spec) for name, spec in scenario.get("tokens", {}).items()
                       if not spec.get("fresh")}
        variants = dict(scenario["variants"])
        if any(v.get("server") == "always_allow" for v in variants.values()):
            for name, address in self.options.subject:
                door = next(v["door"] for v in variants.values() if v.get("server") == "always_allow")
                variants[name] = {"server": "other", "address": address, "door": door}
        for name, spec in variants.items():
            self.variants[name] = self.variant(name, spec, ports)

    def variant(self, name, spec, ports):
        kind, stage = spec.get("server", "portcullis"), self.stage
        made = {"spec": spec, "server": None, "envoy": None, "ours": kind == "portcullis"}
        server_port = None
        if kind == "always_allow":
            like = spec.get("like")
            made["server"] = stage.always_allow(like and self.variants[like]["server"].port)
        elif kind == "portcullis":
            path = spec.get("config", self.scenario.get("config", "deploy/config/quickstart.yaml"))
            text = generate((ROOT / path).read_text(encoding="utf-8"), spec.get("generate"))
            for old, new in self.scenario.get("edits", []) + spec.get("edits", []):
                if old not in text:
                    raise Void(f"{path} has no `{old}` to replace")
                text = text.replace(old, new)
            if spec["door"] == "grpc":
                # The driver holds every answer to its reason, an allow's too.
                text += "\nenvoy: { metadata: [check_id, reason] }\n"
            env = {**self.scenario.get("env", {}), **spec.get("env", {})}
            made["server"] = stage.portcullis(name, text, env, ports)
        elif kind == "other":
            server_port = int(spec["address"].rsplit(":", 1)[1])
        if made["server"]:
            server_port = made["server"].port
        if spec["door"] == "envoy":
            made["envoy"] = stage.proxy(name, server_port, self.backend.port)
        made["port"] = {"envoy": lambda: made["envoy"].port, "grpc": lambda: server_port,
                        "api": lambda: made["server"].api, "backend": lambda: self.backend.port}[spec["door"]]()
        return made

    def plan(self, variant, case, seconds, rate):
        """The driver's plan, with files in place of names of tokens."""
        grpc = variant["spec"]["door"] == "grpc"
        drive = {**case["drive"]}
        share = drive.pop("rate_share", None)
        seconds = drive.pop("seconds", None) or seconds
        asks = []
        for ask in drive.pop("asks"):
            ask, expect = {**ask}, {**ask["expect"]}
            if not variant["ours"]:
                expect = {"status": expect["status"]}
            if not grpc:
                expect.pop("sets", None)
                if expect["status"] < 400:
                    expect.pop("reason", None)
            if "tokens" in ask:
                name = ask["tokens"]
                spec = self.scenario["tokens"][name]
                if spec.get("fresh"):
                    self.fresh += 1
                    ask["tokens"] = str(self.stage.tokens(name, spec, f".{self.fresh}"))
                else:
                    ask["tokens"] = str(self.tokens[name])
            asks.append({**ask, "expect": expect})
        plan = {"target": f"127.0.0.1:{variant['port']}", "mode": "grpc" if grpc else "http",
                "seconds": seconds, "asks": asks, **drive}
        if share:
            plan["rate"] = share * rate
        return plan

    def drive(self, variant, case, seconds, rate=None):
        self.plans += 1
        path = self.stage.folder / f"plan-{self.plans}.json"
        plan = self.plan(variant, case, seconds, rate)
        path.write_text(json.dumps(plan), encoding="utf-8")
        watched = [part for part in (variant["envoy"], variant["server"], self.backend) if part]
        before = judge.snapshot(variant, self.backend)
        used = [part.cpu_ms() for part in watched]
        ran = subprocess.run([RELEASE / "examples/driver", path], capture_output=True, text=True, check=False)
        used = [part.cpu_ms() - was for part, was in zip(watched, used)]
        if ran.returncode not in (0, 1, 2) or not ran.stdout.startswith("{"):
            raise Void(f"the driver failed: {ran.stdout}{ran.stderr}")
        result = json.loads(ran.stdout)
        if "answered" not in result:
            raise Void("; ".join(result["void"]))
        after = judge.snapshot(variant, self.backend)
        void = result["void"] + judge.judge(variant, case, result, before, after)
        count = max(result["answered"], 1)
        figures = {f"{part.kind}_cpu_us": cost * 1000 / count for part, cost in zip(watched, used)}
        figures |= {"rate": result["rate"], "answered": result["answered"], "intended": plan.get("rate")}
        figures |= {f"{name}_ms": result["latency_us"][name] / 1000 for name in ("p50", "p90", "p95", "p99", "p999", "max")}
        figures |= {"driver_cpu": result["driver_cpu"], "driver_saturated": result["driver_saturated"]}
        if variant["server"]:
            figures["memory_mib"], figures["peak_mib"] = variant["server"].memory_mib()
        return {"figures": figures, "void": void, "shown": result["shown"], "curve": result["curve"],
                "answers": result["answers"]}

    def calibrate(self, case, seconds):
        """Requests a second of the always-allow server in a closed loop."""
        base = self.variants.get(case.get("calibrate", "always_allow"))
        drive = {k: v for k, v in case["drive"].items() if k != "rate_share"}
        return self.drive(base, {**case, "drive": drive}, min(seconds, 2))["figures"]["rate"]

    def warm_up(self, cases):
        for name, variant in self.variants.items():
            for case in cases:
                if name not in case.get("variants", self.variants) and variant["spec"].get("server") != "other":
                    continue
                drive = {k: v for k, v in case["drive"].items() if k not in ("rate_share", "rate")}
                found = self.drive(variant, {**case, "drive": {**drive, "seconds": 0.5}, "caches": []}, 0.5)
                bad = [why for why in found["void"] if "wrong" in why]
                if bad:
                    raise Void("; ".join(bad + found["shown"]))

    def play(self):
        """{case: {variant: [rounds]}}"""
        scenario, options = self.scenario, self.options
        self.set_up()
        rounds = min(options.rounds, scenario.get("rounds", options.rounds))
        seconds = options.seconds * scenario.get("seconds_factor", 1)
        cases = scenario["cases"]
        self.warm_up(cases)
        rates = {case["name"]: self.calibrate(case, seconds) for case in cases if "rate_share" in case["drive"]}
        results = {case["name"]: {} for case in cases}
        for number in range(rounds):
            if number and scenario.get("restart"):
                # Where a process lies in memory and on the processors is luck, and worth some
                # hundredths for as long as it runs.
                self.stage.end()
                self.set_up()
                self.warm_up(cases)
            for case in cases:
                here = [v for v in self.variants if v in case.get("variants", self.variants)
                        or self.variants[v]["spec"].get("server") == "other"]
                turn = number % len(here)
                for name in here[turn:] + here[:turn]:
                    found = self.drive(self.variants[name], case, seconds, rates.get(case["name"]))
                    results[case["name"]].setdefault(name, []).append(found)
        return results


def summary(rounds):
    """Median, lowest and highest of every figure; void rounds are told, and kept out."""
    good = [found for found in rounds if not found["void"]]
    figures = {}
    for name in good[0]["figures"] if good else []:
        values = [found["figures"][name] for found in good if isinstance(found["figures"].get(name), (int, float))]
        if values:
            figures[name] = {"median": statistics.median(values), "low": min(values), "high": max(values),
                             "all": values}
    void = [why for found in rounds for why in found["void"]]
    shown = [text for found in rounds for text in found["shown"]][:4]
    answers = {}
    for found in good:
        for answer in found["answers"]:
            key = f"{answer['ask']}: {answer['status']} {answer['reason']}".strip()
            answers[key] = answers.get(key, 0) + answer["count"]
    return {"figures": figures, "rounds": len(good), "void": void, "shown": shown, "answers": answers,
            "curve": good[len(good) // 2]["curve"] if good else []}


def play(scenario, options, folder, envoy):
    """What a scenario measured, for the report."""
    playing = Play(scenario, options, folder, envoy)
    try:
        if "users" in scenario:
            from . import users
            results = users.play(playing)
        elif "soak" in scenario:
            from . import soak
            results = soak.play(playing)
        elif "start" in scenario:
            from . import start
            results = start.play(playing)
        else:
            results = playing.play()
        cases = {case: {variant: summary(rounds) for variant, rounds in found.items()} for case, found in results.items()}
        extra = getattr(playing, "extra", {})
        return {"about": scenario["about"], "cases": cases, "extra": extra, "void": None}
    except Void as why:
        return {"about": scenario["about"], "cases": {}, "extra": {}, "void": str(why)}
    finally:
        playing.stage.end()
