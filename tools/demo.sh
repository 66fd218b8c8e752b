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

step "1/5  a small EEG corpus (synthetic, seeded): 6 patients to train on, 1 unseen"
edfgen --out "$out/train" --patients 6 --hours-per-patient 0.5 --seizures-per-patient 5 --seed 11
edfgen --out "$out/test" --patients 1 --hours-per-patient 1 --seizures-per-patient 6 --seed 12
du -sh "$out/train" "$out/test"

step "2/5  the daemon"
eval "$(BRR_BUILD_DIR=$(dirname "$bin") ./dev up)"
export BRR_ENDPOINT
echo "serving at $BRR_ENDPOINT, metrics at $METRICS_URL"
brrctl dataset "$out/train"

step "3/5  a training job (configs/tiny.yaml, shortened)"
brrctl submit configs/tiny.yaml --name demo --set "data.source=file://$out/train" --set training.max_steps="${BRR_DEMO_STEPS:-200}" \
    --set training.validate_every=100 --watch --id-file "$out/job"
job=$(cat "$out/job")
brrctl checkpoints --job "$job"

step "4/5  one recording of the unseen patient, streamed through the trained model"
recording=$(find "$out/test" -name '*_eeg.edf' | sort | head -1)
brrctl stream "$recording" --model "job:$job" --out "$out/stream.tsv" --plot "$out/plot.svg"

step "5/5  detected beside true seizures"
brrctl detect "$out/test" --model "job:$job" --out "$out/found"
brrctl score "$out/test" "$out/found" --events
brrctl checkpoint get "job:$job" --out "$out/model.safetensors"
printf '\nplot: %s\nmodel: %s\n' "$out/plot.svg" "$out/model.safetensors"
