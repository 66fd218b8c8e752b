#!/usr/bin/env bash
# gpu_path.sh BUILD DEVICE full|small: the path that a user takes, through a daemon on DEVICE (cuda:0, cpu): a training, whose validations
# are in its log, detect and evaluate with its model, live streams beside a training, and a training that is killed with the daemon and
# goes on. Inference is in bf16 on a GPU, where the model allows it. Prints "path,CASE,SECONDS"; fails where a step fails, samples are lost, or the killed training ends with other weights than an
# undisturbed one. full: the model base and 24 hours of EEG; small: minutes on two processors.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$1 device=$2 size=$3
dir=$(mktemp -d)
export BRR_ENDPOINT=unix:$dir/s
daemon=

case $size in
full) patients=24 hours=1 steps=120 kill_at=40 sessions=1000 seconds=25 model=(model.preset=base training.batch_size=64 training.precision=bf16) ;;
small) patients=3 hours=0.1 steps=30 kill_at=10 sessions=8 seconds=5
    model=(model.preset=tiny data.window_s=8 data.hop_s=4 training.batch_size=2 training.micro_batch_size=2 training.precision=fp32) ;;
*) echo "gpu_path: '$size'; expected full or small" >&2 && exit 2 ;;
esac

stop() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    wait || true
    daemon=
}
trap 'stop; rm -rf "$dir"' EXIT

start() {
    "$build/bin/brrd" --config "$root/configs/demo.yaml" --set "devices=[$device]" --set "listen.unix=$dir/s" --set http.listen=none \
        --set "paths.data=$dir/data" --set "paths.cache=$dir/cache" --set "paths.results=$dir/results" --set "jobs.database=$dir/results/jobs.sqlite" \
        --set local_paths=true --set serve_precision=auto --set limits.sessions=10000 --set limits.calls=20000 >>"$dir/brrd.log" 2>&1 &
    daemon=$!
    for _ in $(seq 300); do
        "$build/bin/brrctl" version >/dev/null 2>&1 && return
        sleep 0.2
    done
    tail -3 "$dir/brrd.log" >&2
    return 1
}

ctl() { "$build/bin/brrctl" "$@"; }
field() { python3 -c 'import json, sys; print(json.loads(sys.stdin.read().splitlines()[-1])[sys.argv[1]])' "$1"; }
timed() { # CASE COMMAND…
    local name=$1 from=$EPOCHREALTIME
    shift
    "$@" >"$dir/$name.out"
    printf 'path,%s,%.2f\n' "$name" "$(awk "BEGIN {print $EPOCHREALTIME - $from}")"
}

# NAME [KEY=VALUE…]: prints the id.
training() {
    local sets=(--set "name=$1" --set "data.source=file://$dir/eeg" --set "training.max_steps=$steps" --set "training.validate_every=$steps") set
    shift
    for set in "${model[@]}" "$@"; do sets+=(--set "$set"); done
    ctl submit "$root/configs/tiny.yaml" --json "${sets[@]}" | field job
}
job_state() { ctl job "$1" --json | field state; }
wait_for() { ctl watch "$1" --json >"$dir/watch.out" && [ "$(job_state "$1")" = succeeded ]; }
weights() { sha256sum "$(ctl job "$1" --json | field last_checkpoint)" | cut -d' ' -f1; }

# The device while the job runs, twice a second: memory that is used, and the share of time in which a kernel ran where the driver says it.
watch_device() {
    until [ "$(job_state "$1")" = running ]; do sleep 0.2; done
    while [ "$(job_state "$1")" = running ]; do ctl devices --json && sleep 0.5; done >"$dir/watched"
}
tell_device() {
    python3 - "$dir/watched" "$device" <<'PY'
import json, sys
rows = [d for line in open(sys.argv[1]) for d in [json.loads(line)] if d["name"] == sys.argv[2]]
busy = [d["health"]["utilization_ratio"] for d in rows if d["health"].get("utilization_ratio") is not None]
print(f"path,training-memory-mib-peak,{max((d['used_bytes'] for d in rows), default=0) / 2**20:.0f}")
print(f"path,training-utilization,{sum(busy) / len(busy):.2f}" if busy else "path,training-utilization,not told by the driver")
PY
}

mkdir -p "$dir"/{data,cache,results}
"$build/bin/edfgen" --out "$dir/eeg" --patients "$patients" --hours-per-patient "$hours" --seizures-per-patient 1 --seed 3 >/dev/null 2>&1
start
whole=$(training whole)
watch_device "$whole" &
timed training wait_for "$whole"
tell_device
ctl logs "$whole" || true
timed detect-cold ctl detect "$dir/eeg" --model "job:$whole" --out "$dir/events"
timed detect ctl detect "$dir/eeg" --model "job:$whole" --out "$dir/again" --parallel 8
diff -r "$dir/events" "$dir/again"
timed evaluate ctl submit "$root/configs/eval.yaml" --watch --json --set evaluate.precision=auto --set "evaluate.checkpoint=job:$whole" --set "data.source=file://$dir/eeg"

beside=$(training beside training.max_steps=1000000)
timed streams "$build/bin/brr-load" --model line_length --sessions "$sessions" --seconds "$seconds" --chunk-ms 1000 --ramp-s 2 --connections 20 --json
ctl cancel "$beside" >/dev/null
printf 'path,streams-alarm-p99-ms,%s\n' "$(field alarm_lag_p99_ms <"$dir/streams.out")"
[ "$(field samples_lost <"$dir/streams.out")" = 0 ] || { echo "streams lost samples" >&2 && exit 1; }

killed=$(training killed checkpoint.every=1s)
until [ "$(ctl job "$killed" --json | python3 -c 'import json, sys; print(json.load(sys.stdin).get("step") or 0)')" -ge "$kill_at" ]; do
    sleep 0.1
done
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start
timed killed wait_for "$killed"
[ "$(weights "$killed")" = "$(weights "$whole")" ] || { echo "the killed training ended with other weights" >&2 && exit 1; }
echo "path,killed training has the weights of an undisturbed one"
