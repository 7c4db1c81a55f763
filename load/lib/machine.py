"""What a figure was made on."""

import os
import pathlib
import platform
import re
import subprocess
import time

from .parts import RELEASE, ROOT


def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def facts(envoy):
    cpu = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    changed = said("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "policies", "envoy", "load", "Cargo.lock")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": cpu[1] if cpu else platform.machine(), "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / (1 << 20), 1), "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
        "portcullis": said(str(RELEASE / "portcullis"), "--version"),
        "commit": said("git", "rev-parse", "--short=12", "HEAD") + (" with changes" if changed else ""),
        "envoy": said(envoy, "--version").split("version:")[-1].strip(), "rust": said("rustc", "--version"),
    }
