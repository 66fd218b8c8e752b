#!/usr/bin/env bash
# gpu.sh check BUILD OUT.json | bundle BUILD OUT.tar.gz: the work behind `./dev gpu` and `./dev gpu-bundle`. BUILD is a build folder or
# that of an unpacked bundle (then libs/ beside bin/ holds what programs load).
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
verb=$1 build=$2 out=$3

say() { printf '%s\n' "$*" >&2; }
die() { say "gpu: $*"; exit 1; }

programs=(bin/brrd bin/brrctl bin/edfgen bin/brr-bench bin/brr-op tests/test_ops_vs_cpu tests/test_network_vs_cpu tests/test_op_windows
    tests/test_op_masks tests/test_scan_conv tests/test_scan_reference tests/test_fault tests/test_health tests/task_driver tests/golden_net)
most_bytes=$((40 << 20))
runtimes='libstdc\+\+\.so|libgcc_s\.so' # the target's own where it has them: its CUDA libraries were made for those

bundle() {
    local stage size
    [ -f "$build/lib/libbrr_cuda.so" ] || die "this build has no CUDA backend: it needs nvcc and libcublasLt"
    stage=$(mktemp -d)
    mkdir -p "$stage/brr/build/"{bin,lib,tests,libs,runtimes} "$stage/brr/"{tools,configs,tests/bench,tests/golden}
    cp "$root/dev" "$stage/brr/"
    cp "$root/tools/gpu.sh" "$stage/brr/tools/"
    cp "$root"/tests/bench/torch_{compare,scan}.py "$stage/brr/tests/bench/"
    cp "$root/tests/golden/torch_seizure.py" "$stage/brr/tests/golden/"
    cp "$root/configs/"*.yaml "$stage/brr/configs/"
    git -C "$root" describe --always --dirty >"$stage/brr/revision" 2>/dev/null || echo unknown >"$stage/brr/revision"
    cp "$build/lib/libbrr_cuda.so" "$stage/brr/build/lib/"
    for program in "${programs[@]}"; do
        cp "$build/$program" "$stage/brr/build/$program"
    done
    # What these load from packages, but for the C library and what comes with CUDA: the target has its own.
    local loaded
    loaded=$(cd "$build" && ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
        grep -vE '/lib(c|m|dl|pthread|rt|resolv|cuda|cudart|cublas|cublasLt|cudnn)\.so')
    grep -vE "/($runtimes)" <<<"$loaded" | xargs -r cp -L -t "$stage/brr/build/libs/"
    grep -E "/($runtimes)" <<<"$loaded" | xargs -r cp -L -t "$stage/brr/build/runtimes/"
    strip --strip-debug "$stage"/brr/build/{bin,tests,libs,runtimes}/* "$stage/brr/build/lib/libbrr_cuda.so" 2>/dev/null || true
    tar -C "$stage" -c brr | gzip -9 >"$out"
    rm -rf "$stage"
    size=$(stat -c %s "$out")
    [ "$size" -le "$most_bytes" ] || die "the bundle has $((size >> 20)) MiB; at most $((most_bytes >> 20))"
    say "gpu-bundle: $out, $((size >> 10)) KiB; unpack it and run brr/dev gpu"
}

where() { find /usr/local /usr/lib /opt "$HOME" -name "$1" -not -path '*/stubs/*' -printf '%h\n' -quit 2>/dev/null || true; }

# The folder of cuBLASLt as the backend wants it, where the loader does not find it by itself.
find_products() {
    local wanted found
    wanted=$(ldd "$build/lib/libbrr_cuda.so" | awk '/libcublasLt.*not found/ {print $1}')
    [ -n "$wanted" ] || return 0
    found=$(where "$wanted")
    [ -n "$found" ] || die "no $wanted on this machine: install CUDA ${wanted##*.}'s cuBLAS"
    printf '%s' "$found"
}

# LD_LIBRARY_PATH for the programs: what a bundle brings, the runtimes too where this machine's are missing or too old, and cuBLASLt.
find_libraries() {
    local products missing
    products=$(find_products) || return 1
    [ -d "$build/libs" ] || { printf '%s' "$products" && return; }
    missing=$(LD_LIBRARY_PATH=$build/libs ldd "$build/bin/brrd" 2>&1 | grep -E "($runtimes).* not found" || true)
    printf '%s' "$build/libs${products:+:$products}${missing:+:$build/runtimes}"
}

names=() verdicts=() spent=() notes=()

write_json() {
    local i
    {
        printf '{"time": "%s", "commit": "%s", "device": "%s", "checks": [' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$revision" "$device"
        for i in "${!names[@]}"; do
            printf '%s{"name": "%s", "verdict": "%s", "seconds": %d}' "$([ "$i" = 0 ] || printf ', ')" "${names[i]}" "${verdicts[i]}" "${spent[i]}"
        done
        printf '], "f32": %s, "bf16": %s, "bf16_cudnn": %s, "torch": %s}\n' "$(figures f32)" "$(figures bf16)" "$(figures bf16-cudnn)" \
            "$(figures torch)"
    } >"$out.new"
    mv "$out.new" "$out"
}

# run NAME SECONDS COMMAND…: 77 is a skip; output goes to the log, the end of it to the screen when it fails.
run() {
    local name=$1 limit=$2 rc=0 start=$SECONDS verdict=passed left=$((${BRR_GPU_SECONDS:-86400} - SECONDS - 6)) # 6: to end what hangs
    shift 2
    [[ $name =~ ${BRR_GPU_ONLY:-.} ]] || return 0
    [ "$limit" -le "${BRR_GPU_LIMIT:-$limit}" ] || limit=$BRR_GPU_LIMIT
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$left" -ge 5 ]; then
        say "gpu: $name"
        timeout -k 5 "$limit" "$@" >"$log/$name" 2>&1 || rc=$?
    else
        echo "no time left for it" >"$log/$name"
        rc=77
    fi
    case $rc in
    0) ;;
    77) verdict=skipped ;;
    124 | 137) verdict="over $limit s" ;;
    *) verdict=failed ;;
    esac
    { printf -- '---- %s: %s, %d s\n' "$name" "$verdict" $((SECONDS - start)) && cat "$log/$name"; } >>"$out.log"
    [ $rc -eq 0 ] || [ $rc -eq 77 ] || { say "--- $name"; tail -25 "$log/$name" | cut -c1-240 >&2; }
    names+=("$name") verdicts+=("$verdict") spent+=($((SECONDS - start)))
    notes+=("$([ "$verdict" != skipped ] || tail -1 "$log/$name" | cut -c1-90)") # why
    write_json # after every check: whatever ends this early leaves what there is
    return 0
}

# A short training from resident recordings, and the same from readers: the same weights.
training() {
    local dir way
    dir=$(mktemp -d)
    "$build/bin/edfgen" --out "$dir/eeg" --patients 3 --hours-per-patient 0.2 --seizures-per-patient 2 --seed 3
    for way in auto off; do
        BRR_TEST_DEVICE=cuda:0 "$build/tests/task_driver" "$root/configs/tiny.yaml" "$dir/$way" "$dir/cache" "data.source=file://$dir/eeg" \
            training.max_steps=40 training.batch_size=8 training.micro_batch_size=4 "data.resident=$way" 2>&1 | tee "$dir/$way.log"
    done
    grep -q 'resident in device memory' "$dir/auto.log" || { echo "recordings were not resident"; return 1; }
    [ "$(awk '/^checkpoint/ {sum = $3} END {print sum}' "$dir/auto.log")" = "$(awk '/^checkpoint/ {sum = $3} END {print sum}' "$dir/off.log")" ] ||
        { echo "resident recordings gave other weights"; return 1; }
    rm -rf "$dir"
}

doctor() {
    local rc=0 up
    export BRR_UP_DIR=$log/up
    up=$("$root/dev" up) || return 1
    eval "$up"
    BRR_ENDPOINT=$BRR_ENDPOINT "$build/bin/brrctl" doctor || rc=$?
    "$root/dev" down
    return $rc
}

# TOOL: compute-sanitizer over the ops. Calls that fail are not its matter: ours are looked at, and libraries try what a GPU may lack.
# Nor are races within cuBLASLt's kernels, whose ways of waiting it does not know.
sanitize() {
    local tool shared=()
    tool=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) || { echo "no compute-sanitizer here" && return 77; }
    [ "$1" != racecheck ] || shared=(--kernel-name-exclude 'regex=cutlass|xmma|sgemm|nvjet|cublas|gemv|gemmk1|splitK')
    "$tool" --tool "$1" --report-api-errors no "${shared[@]}" --error-exitcode 9 "$build/tests/test_ops_vs_cpu" 1
}

bench() { # DTYPE [FILTER]; BRR_GPU_FILTER: only cases whose name contains it
    local filter=${2:-${BRR_GPU_FILTER:-}}
    "$build/bin/brr-bench" --device cuda --dtype "$1" --seconds 0.5 --json "$log/bench-$1${BRR_CUDNN:+-cudnn}.json" ${filter:+--filter "$filter"}
}

# The same with cuDNN's convolutions: COMMAND… with BRR_CUDNN=1, skipped where there is none.
with_cudnn() {
    [ -n "$cudnn" ] || { echo "no libcudnn.so.9 here" && return 77; }
    export BRR_CUDNN=1 LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cudnn
    "$@"
}

# The same network in PyTorch, in turns with ours; skipped without one that has CUDA. A bundle's libraries are for our programs alone.
torch_peer() {
    local python program ours=$LD_LIBRARY_PATH
    mkdir -p "$log/programs/"{bin,tests}
    for program in bin/brr-bench tests/golden_net; do
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$ours" "$build/$program" >"$log/programs/$program"
        chmod +x "$log/programs/$program"
    done
    export LD_LIBRARY_PATH=$given
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import sys, numpy, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || continue
        BRR_BUILD_DIR=$log/programs "$python" "$root/tests/bench/torch_compare.py" --device cuda --dtype bf16 --preset base --batch 64 \
            --json "$log/bench-torch.json"
        return
    done
    echo "no PyTorch with CUDA here"
    return 77
}

figures() { if [ -s "$log/bench-$1.json" ]; then cat "$log/bench-$1.json"; else printf null; fi; }

check() {
    local i libs products nvrtc failed=0
    [ -x "$build/tests/test_ops_vs_cpu" ] || die "no test programs in $build; run ninja -C $build first"
    [ -f "$build/lib/libbrr_cuda.so" ] || die "this build has no CUDA backend: it needs nvcc and libcublasLt"
    given=${LD_LIBRARY_PATH:-}
    libs=$(find_libraries)
    export given LD_LIBRARY_PATH=$libs${libs:+${given:+:}}$given
    export BRR_CUDA_LIBRARY=${BRR_CUDA_LIBRARY:-$build/lib/libbrr_cuda.so} OMP_WAIT_POLICY=passive
    export -f training doctor sanitize bench with_cudnn torch_peer
    products=$(ldd "$build/lib/libbrr_cuda.so" | grep -om1 'libcublasLt\.so\.[0-9]*' || true)
    cudnn=$(where 'libcudnn.so.9') nvrtc=$(where "libnvrtc.so.${products##*.}") # with which cuDNN compiles what it fuses
    export cudnn=$cudnn${cudnn:+${nvrtc:+:$nvrtc}}
    log=$(mktemp -d)
    export build root log
    revision=$(cat "$root/revision" 2>/dev/null || git -C "$root" describe --always --dirty)
    device=$(timeout -k 5 60 "$build/tests/test_fault" 2>&1) || case $? in
    77) die "no GPU to be used here: ${device#skipped: }" ;;
    126 | 127) die "the programs do not start here: $device" ;;
    esac
    device=$(sed -n 's/^cuda:0: //p' <<<"$device" | head -1 | tr -d '"\\')
    : >"$out.log"
    run fault 60 "$build/tests/test_fault"
    run health 60 "$build/tests/test_health"
    run ops 120 "$build/tests/test_ops_vs_cpu"
    run windows 60 env BRR_TEST_DEVICE=cuda:0 "$build/tests/test_op_windows"
    run masks 60 env BRR_TEST_DEVICE=cuda:0 "$build/tests/test_op_masks"
    for test in scan_conv scan_reference; do # against double loops
        run "$test" 60 env BRR_TEST_DEVICE=cuda:0 "$build/tests/test_$test"
    done
    for section in gradients inference replay training; do
        run "network-$section" 150 "$build/tests/test_network_vs_cpu" $section
    done
    run doctor 60 bash -c doctor
    BRR_UP_DIR=$log/up "$root/dev" down # where it ran out of time
    run training 120 bash -c training
    run bench-f32 150 bash -c 'bench f32'
    run bench-bf16 150 bash -c 'bench bf16'
    run ops-cudnn 120 bash -c 'with_cudnn "$build/tests/test_ops_vs_cpu"'
    run network-cudnn 120 bash -c 'with_cudnn "$build/tests/test_network_vs_cpu" gradients inference replay'
    run bench-bf16-cudnn 100 bash -c 'with_cudnn bench bf16 detector'
    run unload 150 "$build/tests/test_network_vs_cpu" unload
    run torch 400 bash -c torch_peer
    [ -n "${BRR_GPU_FAST:-}" ] || run memcheck 180 bash -c 'sanitize memcheck'
    [ -n "${BRR_GPU_FAST:-}" ] || run racecheck 180 bash -c 'sanitize racecheck'
    grep -h '^ok\|^FAILED\|^ ' "$log"/network-* "$log/unload" 2>/dev/null | cut -c1-110 || true
    grep -hE '^#|^(detector|scan|ssd),' "$log"/bench-* 2>/dev/null | cut -d, -f1-6,9,10 || true
    grep -hE 'PyTorch|^detector' "$log/torch" 2>/dev/null | grep -v '^no ' || true
    for i in "${!names[@]}"; do
        printf '%-20s %-12s %4d s  %s\n' "${names[i]}" "${verdicts[i]}" "${spent[i]}" "${notes[i]}"
        case ${verdicts[i]} in passed | skipped) ;; *) failed=1 ;; esac
    done
    rm -rf "$log"
    say "gpu: $out, what each check printed in $out.log"
    return $failed
}

"$verb"
