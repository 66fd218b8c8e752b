#!/usr/bin/env bash
# The model that ships with brrd: models/demo.safetensors is what this made (some twenty minutes on two cores).
# usage: tools/demo_model.sh DIRECTORY        (needs edfgen and brrd on the PATH)
set -euo pipefail
dir=${1:?usage: tools/demo_model.sh DIRECTORY}
here=$(dirname "$(dirname "$(readlink -f "$0")")")
mkdir -p "$dir"
dir=$(readlink -f "$dir")
edfgen --out "$dir/train/rich" --patients 16 --hours-per-patient 0.5 --seizures-per-patient 5 --seed 2101 --style rich --montage bipolar
edfgen --out "$dir/train/simple" --patients 8 --hours-per-patient 0.5 --seizures-per-patient 5 --seed 2102 --montage bipolar
for style in rich simple; do
    edfgen --out "$dir/test/$style" --patients 4 --hours-per-patient 2 --seizures-per-patient 8 --seed "$([ "$style" = rich ] && echo 7301 || echo 7302)" \
        --style "$style" --montage bipolar
done
brrd run "$here/configs/tiny.yaml" --directory "$dir/model" --set "data.source=file://$dir/train" --set data.patient=folder \
    --set data.montage=bipolar-18 --set data.normalize=envelope --set data.augment.enabled=true --set training.max_steps=600 \
    --set training.validate_every=150
# Thresholds and alarm rules by a daemon, on patients of their own.
for style in rich simple; do
    edfgen --out "$dir/tune/$style" --patients 6 --hours-per-patient 1 --seizures-per-patient 5 --seed 2103 --style "$style" --montage bipolar
done
brrd --config "$here/configs/demo.yaml" --set listen.unix="$dir/brrd.sock" --set http.listen=none --set paths.data="$dir" --set paths.cache="$dir/cache" \
    --set paths.results="$dir/results" --set jobs.database="$dir/jobs.sqlite" &
daemon=$!
trap 'kill "$daemon"' EXIT
export BRR_ENDPOINT=unix:$dir/brrd.sock
until brrctl version >/dev/null 2>&1; do sleep 0.2; done
brrctl tune "$dir/model/checkpoints/step-00000600.safetensors" "$dir/tune" --alarm-hop 5 --target-fa 5 --out "$dir/demo.safetensors"
for style in rich simple; do
    brrd run "$here/configs/eval.yaml" --directory "$dir/scores-$style" --set "evaluate.checkpoint=$dir/demo.safetensors" \
        --set "data.source=file://$dir/test/$style"
done
