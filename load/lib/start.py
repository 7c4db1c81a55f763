"""How soon Portcullis is ready, and what it holds when it does nothing."""

import statistics
import time


def play(playing):
    ready, idle = [], []
    for _ in range(min(playing.options.rounds, playing.scenario["rounds"])):
        playing.set_up()
        server = playing.variants["portcullis"]["server"]
        # What start-up freed is given back by then.
        time.sleep(2.5)
        ready.append(server.ready_ms)
        idle.append(server.memory_mib()[0])
        playing.stage.end()
    playing.extra = {"ready_ms": statistics.median(ready), "ready_ms_all": ready, "idle_mib": statistics.median(idle)}
    return {}
