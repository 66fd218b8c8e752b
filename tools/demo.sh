#!/usr/bin/env bash
# The demo: seizures that the shipped model finds in synthetic patients, then a training on others and what that model finds.
# usage: demo.sh BIN_DIR [OUTPUT_DIR]      (./dev demo builds first and calls this)
set -euo pipefail
bin=$(readlink -f "$1")
out=$(readlink -m "${2:-$PWD/demo-out}")
export PATH="$bin:$PATH"
cd "$(dirname "$(dirname "$(readlink -f "$0")")")"

bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\033[1m' plain=$'\033[0m'
fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
rm -rf "$out"
mkdir -p "$out"
export BRR_UP_DIR="$out/daemon"
trap './dev down' EXIT

step "1/6  EEG (synthetic, seeded): 6 patients to train on, 2 others to find seizures in"
edfgen --out "$out/train" --patients 6 --hours-per-patient 0.5 --seizures-per-patient 5 --seed 11
edfgen --out "$out/unseen" --patients 2 --hours-per-patient 1 --seizures-per-patient 4 --seed 12

step "2/6  the daemon"
eval "$(BRR_BUILD_DIR=$(dirname "$bin") ./dev up)"
export BRR_ENDPOINT
echo "serving at $BRR_ENDPOINT, page and metrics at ${METRICS_URL%metrics}"
brrctl version

step "3/6  seizures at once: the model that ships with brrd, on patients it has never seen"
brrctl detect "$out/unseen" --model demo --output "$out/shipped"
brrctl score "$out/unseen" "$out/shipped" --events
brrctl stream "$out/unseen/sub-01/sub-01_run-01_eeg.edf" --model demo --plot "$out/shipped.svg" --alarms
echo "picture of the recording, its events and true seizures: $out/shipped.svg"

step "4/6  a model of your own: configs/tiny.yaml, shortened; validated on a patient it does not train on"
brrctl dataset "$out/train"
brrctl submit configs/tiny.yaml --name demo --set "data.source=file://$out/train" --set data.dataset=train --set training.max_steps="${BRR_DEMO_STEPS:-150}" \
    --set training.validate_every=75 --watch --id-file "$out/job"
job=$(cat "$out/job")
brrctl logs "$job"
brrctl checkpoint get "job:$job" --out "$out/model.safetensors"

step "5/6  detection with it"
brrctl load own "job:$job"
brrctl detect "$out/unseen" --model own --dataset unseen --output "$out/found"

step "6/6  detected beside true seizures"
brrctl score "$out/unseen" "$out/found" --events
brrctl stream "$out/unseen/sub-01/sub-01_run-01_eeg.edf" --model own --plot "$out/recording.svg" --probs "$out/probabilities.npy"

printf '\nmodel    %s\nevents   %s\npictures %s %s\n' "$out/model.safetensors" "$out/found" "$out/shipped.svg" "$out/recording.svg"
