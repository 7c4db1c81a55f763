"""Steady load: how much memory grows after warm-up."""

import time


def play(playing):
    playing.set_up()
    variant, case = playing.variants["portcullis"], playing.scenario["cases"][0]
    warm_up = playing.scenario["soak"]["warm_up"]
    first = playing.drive(variant, case, warm_up)
    memory = [(0, variant["server"].memory_mib()[0])]
    began, rounds = time.monotonic(), []
    while time.monotonic() - began < playing.options.soak:
        left = playing.options.soak - (time.monotonic() - began)
        rounds.append(playing.drive(variant, case, max(1, min(15, left))))
        memory.append((round(time.monotonic() - began), variant["server"].memory_mib()[0]))
    playing.extra = {"memory": memory, "seconds": playing.options.soak, "growth_mib": memory[-1][1] - memory[0][1],
                     "warm_up": warm_up, "warm_up_void": first["void"]}
    return {case["name"]: {"portcullis": rounds}}
