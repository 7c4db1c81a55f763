"""The processes of a load run: started on loopback, watched in /proc, ended by their own ids."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELEASE = TARGET / "release"
TICK = 1000 / os.sysconf("SC_CLK_TCK")
ISSUER, AUDIENCE = "https://idp.playground.test", "water-data"


class Void(Exception):
    """The run is no figure."""


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


class Part:
    """A process and what it costs."""

    def __init__(self, kind, name, command, log, ready, env=None):
        self.kind, self.name, self.log = kind, name, log
        out = subprocess.DEVNULL if kind == "server" else open(log.with_suffix(".out"), "wb")
        began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=out, stderr=open(log, "wb"),
                                        env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        while not ready():
            if self.process.poll() is not None or time.monotonic() - began > 30:
                self.stop()
                text = log.read_text(errors="replace")[-2000:]
                raise Void(f"{name} did not come up: {text}")
            time.sleep(0.005)
        self.ready_ms = (time.monotonic() - began) * 1000

    def cpu_ms(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * TICK

    def memory_mib(self):
        """Resident now, and at most so far."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1]) / 1024 for name in ("VmRSS", "VmHWM")]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def answers(port, path):
    def ready():
        try:
            get(port, path)
            return True
        except OSError:
            return False
    return ready


def listens(port):
    def ready():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
    return ready


class Stage:
    """What one scenario runs on: a folder with keys and tokens, and its processes."""

    def __init__(self, folder, envoy, port):
        self.folder, self.envoy, self.parts = folder, envoy, []
        self.next_port = port
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.playground("keys", folder)

    def port(self):
        while True:
            self.next_port += 1
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.next_port)):
                    return self.next_port

    def start(self, *args, **more):
        part = Part(*args, **more)
        self.parts.append(part)
        return part

    def end(self):
        for part in reversed(self.parts):
            part.stop()
        self.parts.clear()

    def playground(self, *args, out=None):
        subprocess.run([RELEASE / "examples/playground", *map(str, args)], check=True, stdout=out)

    def tokens(self, name, spec, suffix=""):
        """A file of tokens as `spec` says; `suffix` makes others of them."""
        path = self.folder / f"tokens-{name}{suffix}"
        args = ["token", "--keys", self.folder, "--issuer", ISSUER,
                "--audience", spec.get("audience", AUDIENCE), "--user", spec["user"] + suffix,
                "--signer", spec.get("signer", "rsa"), "--expires", spec.get("expires", 7200)]
        args += ["--count", spec["count"]] if "count" in spec else []
        for claim in spec.get("claims", []):
            args += ["--claim", claim]
        with open(path, "wb") as out:
            self.playground(*args, out=out)
        return path

    def backend(self, watch):
        port = self.port()
        command = [RELEASE / "examples/playground", "backend", "--listen", f"127.0.0.1:{port}", "--fixed"]
        command += ["--watch", watch] if watch else []
        part = self.start("backend", "backend", command, self.folder / "backend.log", answers(port, "/stats"))
        part.port = port
        return part

    def always_allow(self, like=None):
        port = self.port()
        command = [RELEASE / "examples/always_allow", "--listen", f"127.0.0.1:{port}"]
        command += ["--like", f"127.0.0.1:{like}"] if like else []
        part = self.start("server", "always-allow", command, self.folder / "always_allow.log", listens(port))
        part.port, part.admin = port, None
        return part

    def opa(self, bundle):
        program = shutil.which("opa") or str(TARGET / "tools/opa")
        port = self.port()
        command = [program, "run", "--server", "--addr", f"127.0.0.1:{port}", "--log-level", "error",
                   "--bundle", str(ROOT / bundle)]
        part = self.start("opa", "OPA", command, self.folder / "opa.log", answers(port, "/health"))
        part.port = port
        return part

    def portcullis(self, name, text, env, ports):
        """Portcullis by a configuration text in which ports are those of the shipped files."""
        ports = {"check": self.port(), "admin": self.port(), "api": self.port(), **ports}
        text = text.replace("../../target/quickstart", str(self.folder)).replace("../../", f"{ROOT}/")
        for shipped, kind in ((9191, "check"), (9190, "admin"), (9192, "api"), (7000, "backend"),
                              (8181, "opa"), (6379, "redis")):
            if kind in ports:
                text = text.replace(f":{shipped}", f":{ports[kind]}")
        path = self.folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        command = [RELEASE / "portcullis", "serve", "--config", path]
        part = self.start("server", name, command, self.folder / f"{name}.log",
                          answers(ports["admin"], "/ready"), env=env)
        part.port, part.admin, part.api = ports["check"], ports["admin"], ports["api"]
        return part

    def proxy(self, name, server_port, backend_port):
        """Envoy by envoy/quickstart.yaml without its access log, and patient, as a stalled machine
        is not what is measured; without the filter where there is no server."""
        port, admin = self.port(), self.port()
        text = (ROOT / "envoy/quickstart.yaml").read_text(encoding="utf-8")
        for shipped, ours in ((8080, port), (9901, admin), (9191, server_port or 9191), (7000, backend_port)):
            text = text.replace(f"port_value: {shipped}", f"port_value: {ours}")
        text = text.replace("timeout: 0.5s", "timeout: 5s")
        # As many connections for each worker: by chance one had twice as many as the other.
        text = text.replace("  - name: ingress\n", "  - name: ingress\n    connection_balance_config: { exact_balance: {} }\n")
        text = re.sub(r" +access_log:.*?inline_string:[^\n]*\n", "", text, flags=re.S)
        if server_port is None:
            text = re.sub(r" +- name: envoy\.filters\.http\.ext_authz.*?clear_route_cache:[^\n]*\n", "",
                          text, flags=re.S)
        path = self.folder / f"envoy-{name}.yaml"
        path.write_text(text, encoding="utf-8")
        command = [self.envoy, "-c", path, "--use-dynamic-base-id", "--log-level", "warning"]
        part = self.start("envoy", "Envoy", command, self.folder / f"envoy-{name}.log", answers(admin, "/ready"))
        part.port = port
        return part
