#!/usr/bin/env bash
# The demo: a small synthetic corpus, a training job, and the seizures it finds in recordings of patients it never saw.
# usage: demo.sh BIN_DIR [OUTPUT_DIR]      (./dev demo builds first and calls this)
set -euo pipefail
bin=$1
out=$(readlink -m "${2:-$PWD/demo-out}")
export PATH="$bin:$PATH"
here=$(dirname "$(dirname "$(readlink -f "$0")")")
cd "$here"

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
rm -rf "$out"
mkdir -p "$out"
export BRR_UP_DIR="$out/daemon"
trap './dev down' EXIT

step "1/3  a small EEG corpus (synthetic, seeded): 6 patients"
edfgen --out "$out/train" --patients 6 --hours-per-patient 0.5 --seizures-per-patient 5 --seed 11
du -sh "$out/train"

step "2/3  the daemon"
eval "$(BRR_BUILD_DIR=$(dirname "$bin") ./dev up)"
export BRR_ENDPOINT
echo "serving at $BRR_ENDPOINT, metrics at $METRICS_URL"
brrctl version

step "3/3  a training job (configs/tiny.yaml, shortened); validated on a patient it does not train on"
brrctl submit configs/tiny.yaml --name demo --set "data.source=file://$out/train" --set training.max_steps="${BRR_DEMO_STEPS:-120}" \
    --set training.validate_every=60 --watch --id-file "$out/job"
brrctl logs "$(cat "$out/job")"
cp "$(brrctl job "$(cat "$out/job")" --json | sed 's/.*"checkpoint":"\([^"]*\)".*/\1/')" "$out/model.safetensors"
printf '\nmodel: %s\n' "$out/model.safetensors"
