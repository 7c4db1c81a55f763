"""The scenario of ever more users: fills the caches, then measures known users among all, beside a
server that knows ten."""

import time

from . import judge
from .parts import Void

# Tokens of one file: minted, sent once, thrown away.
BATCH = 50_000
# Users among whom a measurement chooses.
SAMPLE = 20_000


def fill(playing, variant, case, have, size):
    """Brings users `have` to `size`, and keeps some of their tokens for the measurement."""
    stage, spec = playing.stage, playing.scenario["tokens"]["users"]
    sample = stage.folder / "tokens-sample"
    every = max(1, size // SAMPLE)
    while have < size:
        count = min(BATCH, size - have)
        playing.fresh += 1
        path = stage.tokens("users", {**spec, "count": count}, f".{playing.fresh}")
        with open(path, encoding="utf-8") as lines, open(sample, "a", encoding="utf-8") as out:
            out.writelines(line for n, line in enumerate(lines) if n % every == 0)
        playing.tokens["users"] = path
        once = [{**ask, "order": "once"} for ask in case["drive"]["asks"]]
        found = playing.drive(variant, {"drive": {"connections": 8, "streams": 4, "asks": once}}, 600)
        if found["void"]:
            raise Void("; ".join(found["void"] + found["shown"]))
        path.unlink()
        have += count
    playing.tokens["users"] = sample
    return have


def ten_users(playing):
    """Tokens of ten users. The driver has as many for them as for all others, so that what its own
    memory takes of the processor's caches is the same."""
    path = playing.stage.tokens("users", {**playing.scenario["tokens"]["users"], "count": 10}, ".ten")
    path.write_text(path.read_text(encoding="utf-8") * (SAMPLE // 10), encoding="utf-8")
    return path


def ten(playing, case, path):
    """A server that knows ten users."""
    few = playing.variant("ten users", playing.scenario["variants"]["portcullis"], {"backend": playing.backend.port})
    playing.tokens["users"] = path
    if bad := playing.drive(few, {**case, "caches": []}, 0.5)["void"]:
        raise Void("; ".join(bad))
    return few


def play(playing):
    playing.scenario["tokens"]["users"]["count"] = 1
    playing.set_up()
    many, case = playing.variants["portcullis"], playing.scenario["cases"][0]
    few_tokens = ten_users(playing)
    most = playing.options.users
    sizes = [size for size in playing.scenario["users"] if size < most] + [most]
    rounds = min(playing.options.rounds, playing.scenario["rounds"])
    results, memory, have = {}, [], 0
    for size in sizes:
        have = fill(playing, many, case, have, size)
        # The allocator gives back what the load freed a moment later.
        time.sleep(2)
        resident, _ = many["server"].memory_mib()
        found = judge.metrics(many["server"].admin)
        caches = {labels[0][1]: value for (name, labels), value in found.items() if name == "portcullis_cache_size_bytes"}
        entries = {labels[0][1]: value for (name, labels), value in found.items() if name == "portcullis_cache_entries"}
        memory.append({"users": size, "resident_mib": resident, "accounted_bytes": caches, "entries": entries})
        results[f"{size} users"] = beside(playing, case, rounds, few_tokens, many)
    first, last = memory[0], memory[-1]
    grown = (last["resident_mib"] - first["resident_mib"]) * (1 << 20) / max(last["users"] - first["users"], 1)
    each = {name: last["accounted_bytes"][name] / entries for name, entries in last["entries"].items() if entries}
    playing.extra = {"memory": memory, "bytes_per_user": grown, "accounted_bytes_each": each,
                     "million_users_mib": first["resident_mib"] + grown * 1e6 / (1 << 20),
                     "users": last["users"]}
    return results


def beside(playing, case, rounds, few_tokens, many):
    """Rounds of both, each first in its turn: minutes lie between one size and the next, in which the
    machine may have become another. The server of ten users is a new one in each, as where a process
    lies in memory is luck, and worth some hundredths for as long as it runs."""
    many_tokens, found = playing.tokens["users"], {"ten users": [], "portcullis": []}
    for number in range(rounds):
        few = ten(playing, case, few_tokens)
        order = [("ten users", few, few_tokens), ("portcullis", many, many_tokens)]
        for name, variant, tokens in order[::-1] if number % 2 else order:
            playing.tokens["users"] = tokens
            found[name].append(playing.drive(variant, case, playing.options.seconds))
        few["server"].stop()
    playing.tokens["users"] = many_tokens
    return found
