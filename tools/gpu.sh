#!/usr/bin/env bash
# gpu.sh check BUILD OUT.json [STAGE…] | bundle BUILD OUT.tar.xz: the work behind `./dev gpu` and `./dev gpu-bundle`. BUILD is a build
# folder or that of an unpacked bundle (then libs/ beside bin/ holds what programs load). Stages, each within nine minutes:
# smoke (what needs no GPU, then a first small figure), correctness, path (a daemon at work: gpu_path.sh), ops (where the time of a step goes),
# frameworks (libbrr_scan from PyTorch and JAX), figures, peers, sanitizer, faults. Without one: all, in this order.
# What breaks a device on purpose, or may hang on one, comes last. BRR_GPU_JOBS: correctness and sanitizer run so many checks side by side.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
verb=$1 build=$2 out=$3
shift 3

say() { printf '%s\n' "$*" >&2; }
die() { say "gpu: $*"; exit 1; }

anywhere=(op_windows augment scan_conv scan_reference op_geodesic geodesic_fit burst burst_bits burst_change burst_state burst_synapses
    burst_ranks scan_library recordings profile) # tests of any device
programs=(bin/brrd bin/brrctl bin/brr-load bin/edfgen bin/brr-bench tests/test_ops_vs_cpu tests/test_network_vs_cpu tests/test_batch tests/test_weights
    "${anywhere[@]/#/tests/test_}" tests/test_gpu_devices tests/test_gpu_exchange tests/test_fault tests/test_health tests/task_driver tests/golden_net)
all_stages=(smoke correctness path ops frameworks figures peers sanitizer faults)
most_bytes=$((48 << 20))
runtimes='libstdc\+\+\.so|libgcc_s\.so' # the target's own where it has them: its CUDA libraries were made for those

bundle() {
    local stage size
    [ -f "$build/lib/libbrr_cuda.so" ] || die "this build has no CUDA backend: it needs nvcc and libcublasLt"
    stage=$(mktemp -d)
    mkdir -p "$stage/brr/build/"{bin,lib,tests,libs,runtimes} "$stage/brr/"{tools,configs,tests/bench,tests/golden,tests/gpu,client/python}
    cp "$root/dev" "$stage/brr/"
    cp "$root/tests/seed.py" "$stage/brr/tests/"
    cp "$root/tests/gpu/frameworks.py" "$stage/brr/tests/gpu/"
    cp -r "$root/client/python/brr" "$stage/brr/client/python/"
    cp "$root"/tools/gpu{,_path}.sh "$stage/brr/tools/"
    cp "$root"/tests/bench/torch_{compare,scan}.py "$stage/brr/tests/bench/"
    cp "$root/tests/golden/torch_seizure.py" "$stage/brr/tests/golden/"
    cp "$root/configs/"*.yaml "$stage/brr/configs/"
    git -C "$root" describe --always --dirty >"$stage/brr/revision" 2>/dev/null || echo unknown >"$stage/brr/revision"
    cp -L "$build/lib/"{libbrr_cuda.so,libbrr_scan.so.1} "$stage/brr/build/lib/"
    for program in "${programs[@]}"; do
        cp "$build/$program" "$stage/brr/build/$program"
    done
    # What these load from packages, but for the C library and what comes with CUDA: the target has its own.
    local loaded
    loaded=$(cd "$build" && ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
        grep -vE '/lib(c|m|dl|pthread|rt|resolv|cuda|cudart|cublas|cublasLt|cudnn)\.so')
    grep -vE "/($runtimes)" <<<"$loaded" | xargs -r cp -L -t "$stage/brr/build/libs/"
    grep -E "/($runtimes)" <<<"$loaded" | xargs -r cp -L -t "$stage/brr/build/runtimes/"
    strip --strip-unneeded "$stage"/brr/build/{bin,tests,libs,runtimes}/* "$stage"/brr/build/lib/* 2>/dev/null || true
    tar -C "$stage" -c brr | xz -T0 >"$out"
    rm -rf "$stage"
    size=$(stat -c %s "$out")
    [ "$size" -le "$most_bytes" ] || die "the bundle has $((size >> 20)) MiB; at most $((most_bytes >> 20))"
    say "gpu-bundle: $out, $((size >> 10)) KiB; unpack it and run brr/dev gpu"
}

where() { find /usr/local /usr/lib /opt "$HOME" -name "$1" -not -path '*/stubs/*' -printf '%h\n' -quit 2>/dev/null || true; }

# The folder of cuBLASLt as the backend wants it, where the loader does not find it by itself.
find_products() {
    local wanted found
    wanted=$(ldd "$BRR_CUDA_LIBRARY" | awk '/libcublasLt.*not found/ {print $1}')
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

names=() # of the checks, in the order in which they began
jobs=1   # checks at a time

# What a check's end left: its verdict, its seconds, and why it was skipped.
ended() { cat "$log/$1.end" 2>/dev/null || printf 'not ended\t0\t\n'; }

write_json() {
    local i verdict took
    {
        printf '{"time": "%s", "commit": "%s", "device": "%s", "checks": [' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$revision" "$device"
        for i in "${!names[@]}"; do
            IFS=$'\t' read -r verdict took _ < <(ended "${names[i]}")
            printf '%s{"name": "%s", "verdict": "%s", "seconds": %d}' "$([ "$i" = 0 ] || printf ', ')" "${names[i]}" "$verdict" "$took"
        done
        printf '], "f32": %s, "bf16": %s, "bf16_cudnn": %s, "torch": %s, "lines": [%s]}\n' "$(figures f32)" "$(figures bf16)" \
            "$(figures bf16-cudnn)" "$(figures torch)" "$(lines)"
    } >"$out.new"
    mv "$out.new" "$out"
}

# NAME SECONDS COMMAND…: 77 is a skip; output goes to the log, the end of it to the screen when it fails.
check_one() {
    local name=$1 limit=$2 rc=0 start=$SECONDS verdict=passed why=
    shift 2
    if [ "$limit" -ge 5 ]; then
        say "gpu: $name"
        timeout -k 5 "$limit" "$@" >"$log/$name" 2>&1 || rc=$?
    else
        echo "no time left for it" >"$log/$name"
        rc=77
    fi
    case $rc in
    0) ;;
    77) verdict=skipped why=$(tail -1 "$log/$name" | cut -c1-90) ;;
    124 | 137) verdict="over $limit s" ;;
    *) verdict=failed ;;
    esac
    printf '%s\t%d\t%s\n' "$verdict" $((SECONDS - start)) "$why" >"$log/$name.end"
    { printf -- '---- %s: %s, %d s\n' "$name" "$verdict" $((SECONDS - start)) && cat "$log/$name"; } >>"$out.log"
    [ $rc -eq 0 ] || [ $rc -eq 77 ] || { say "--- $name"; tail -25 "$log/$name" | cut -c1-240 >&2; }
}

# run NAME SECONDS COMMAND…: begins the check as soon as fewer than $jobs are under way, and waits for it where there is one at a time.
run() {
    local name=$1 limit=$2 left
    shift 2
    [[ $name =~ ${BRR_GPU_ONLY:-.} ]] || return 0
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    left=$((${BRR_GPU_SECONDS:-86400} - SECONDS - 6)) # 6: to end what hangs
    [ "$limit" -le "${BRR_GPU_LIMIT:-$limit}" ] || limit=$BRR_GPU_LIMIT
    [ "$limit" -le "$left" ] || limit=$left
    names+=("$name")
    check_one "$name" "$limit" "$@" &
    [ "$jobs" -gt 1 ] || wait
    write_json # after every check: whatever ends this early leaves what there is
}

# COUNT: so many checks side by side, each with its share of the processors; with 1, waits for those under way.
side_by_side() {
    wait
    jobs=$1
    export OMP_NUM_THREADS=$(($(nproc) > jobs ? $(nproc) / jobs : 1))
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

# TOOL PROGRAM [OPS]: compute-sanitizer over a test. Calls that fail are not its matter: ours are looked at, and libraries try what a GPU
# may lack. Races are looked for in kernels that are all our own: on an H200 racecheck broke cuBLASLt's ("failed to handle a hardware
# exception"), also where it was told to leave them out.
sanitize() {
    local tool
    tool=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) || { echo "no compute-sanitizer here" && return 77; }
    [ -z "${3:-}" ] || export BRR_TEST_OPS=$3
    BRR_TEST_DEVICE=cuda:0 "$tool" --tool "$1" --report-api-errors no --error-exitcode 9 "$build/tests/test_$2"
}

bench() { # DTYPE [FILTER]; BRR_GPU_FILTER: only cases whose name contains it
    local filter=${2:-${BRR_GPU_FILTER:-}}
    "$build/bin/brr-bench" --device cuda --dtype "$1" --seconds "${BRR_GPU_BENCH_SECONDS:-0.5}" --json "$log/bench-$1${BRR_CUDNN:+-cudnn}.json" ${filter:+--filter "$filter"}
}

# The same with cuDNN's convolutions: COMMAND… with BRR_CUDNN=1, skipped where there is none.
with_cudnn() {
    [ -n "$cudnn" ] || { echo "no libcudnn.so.9 here" && return 77; }
    export BRR_CUDNN=1 LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cudnn
    "$@"
}

# Where the time of a step goes, op by op.
ops() { # DTYPE BENCH CASE
    "$build/bin/brr-bench" "$2" "$3" --device cuda --dtype "$1" --seconds 0.3 --ops
}

# libbrr_scan from other libraries' tensors: with their own runtimes, and of a bundle's libraries only those that ours needs.
frameworks() {
    local python library needed=$log/needed
    mkdir -p "$needed"
    for library in libgomp.so.1 libdnnl.so.2 libOpenCL.so.1; do
        [ ! -f "$build/libs/$library" ] || ln -sf "$build/libs/$library" "$needed/"
    done
    export BRR_SCAN_LIBRARY=$build/lib/libbrr_scan.so.1 LD_LIBRARY_PATH=$needed:$cublas:$given
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || continue
        "$python" "$root/tests/gpu/frameworks.py"
        return
    done
    echo "no PyTorch with CUDA here"
    return 77
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

# The figures of checks that print some.
lines() { grep -hE '^(path|frameworks),' "$log/path" "$log/frameworks" 2>/dev/null | sed 's/["\\]//g; s/.*/"&"/' | paste -sd, || true; }

# What needs no GPU: every program finds its libraries and starts, and the CUDA backend belongs to these programs.
starts() {
    local program missing failed=0
    for program in $programs_list; do
        missing=$(ldd "$build/$program" 2>&1 | grep -iE 'not found|no such file' || true)
        [ -z "$missing" ] || { echo "$program: $missing" && failed=1; }
    done
    missing=$(ldd "$BRR_CUDA_LIBRARY" | grep 'not found' || true)
    [ -z "$missing" ] || { echo "$BRR_CUDA_LIBRARY: $missing" && failed=1; }
    "$build/bin/brrd" --version && "$build/bin/brrctl" --version && "$build/bin/brr-bench" --help >/dev/null || failed=1
    "$build/bin/brr-bench" sigmoid --device cuda --seconds 0 2>&1 | grep -E 'another build|is not a CUDA backend|cannot be loaded' && failed=1
    return $failed
}

# The CPU's side of what a GPU is compared with.
cpu_side() {
    local dir rc=0
    dir=$(mktemp -d)
    "$build/bin/edfgen" --out "$dir" --patients 1 --hours-per-patient 0.05 --seizures-per-patient 0 --seed 3 || rc=1
    "$build/tests/test_op_geodesic" && "$build/tests/test_scan_reference" || rc=1
    rm -rf "$dir"
    return $rc
}

ops_and_network() { "$build/tests/test_ops_vs_cpu" && "$build/tests/test_network_vs_cpu" gradients inference replay; }

stage_smoke() {
    run starts 60 bash -c starts
    run cpu-side 200 env -u BRR_TEST_DEVICE bash -c cpu_side
    find_device
    run first-figure 60 "$build/bin/brr-bench" --device cuda --dtype f32 --seconds 0.1 --filter "norm layer"
    run health 60 "$build/tests/test_health"
    run batch-mini 60 env BRR_TEST_MODEL=mini "$build/tests/test_batch"
}

stage_correctness() {
    local test section
    find_device
    side_by_side "${BRR_GPU_JOBS:-1}"
    run ops 150 "$build/tests/test_ops_vs_cpu"
    run batch 90 "$build/tests/test_batch"
    run weights 60 "$build/tests/test_weights"
    for test in "${anywhere[@]}"; do
        run "${test#op_}" 120 env BRR_TEST_DEVICE=cuda:0 "$build/tests/test_$test"
    done
    for section in gradients inference replay training; do
        run "network-$section" 90 "$build/tests/test_network_vs_cpu" $section
    done
    run training 120 bash -c training
    run devices 60 "$build/tests/test_gpu_devices"
    run exchange 60 "$build/tests/test_gpu_exchange"
    run burst-gpus 60 env BRR_TEST_SPREAD=1 "$build/tests/test_burst_ranks" # burst_ranks has shards that share one GPU
    run doctor 60 bash -c doctor
    side_by_side 1
    BRR_UP_DIR=$log/up "$root/dev" down # where it ran out of time
}

stage_ops() {
    find_device
    run ops-train 40 bash -c "ops bf16 detector.train 'base b64'"
    run ops-infer 40 bash -c "ops bf16 detector.infer 'base b64'"
    run ops-causal 40 bash -c "ops f32 detector.step 'causal tiny b64'"
    run ops-causal-train 40 bash -c "ops f32 detector.train 'causal tiny b8'"
    run ops-geodesic 40 bash -c "ops f32 geodesic 'six folds closed_form'"
    run ops-geodesic-x3 40 bash -c "ops f32 geodesic 'six folds bf16x3'"
}

stage_frameworks() {
    find_device
    run frameworks 120 bash -c frameworks
}

stage_figures() {
    find_device
    run bench-f32 200 bash -c 'bench f32'
    run bench-bf16 200 bash -c 'bench bf16'
    run bench-bf16-cudnn 120 bash -c 'with_cudnn bench bf16 detector'
}

stage_path() {
    find_device
    run path 480 bash "$root/tools/gpu_path.sh" "$build" cuda:0 full
}

# cuDNN's own fusion compiles for seconds a shape: its ops and network are calls of their own.
stage_peers() {
    find_device
    run ops-cudnn 150 bash -c 'with_cudnn ops_and_network'
    run torch 380 bash -c torch_peer
}

stage_sanitizer() {
    find_device
    side_by_side "${BRR_GPU_JOBS:-1}"
    run racecheck-geodesic 180 bash -c 'sanitize racecheck op_geodesic'
    run racecheck-scan 180 bash -c 'sanitize racecheck ops_vs_cpu scan'
    run racecheck-ssd 180 bash -c 'sanitize racecheck ops_vs_cpu ssd'
    run racecheck-rows 180 bash -c 'sanitize racecheck ops_vs_cpu norm,depthwise,eltwise,loss,sigmoid,dropout,adamw'
    run racecheck-burst 120 bash -c 'sanitize racecheck burst'
    run memcheck 260 bash -c 'sanitize memcheck ops_vs_cpu'
    side_by_side 1
}

stage_faults() {
    find_device
    run unload 150 "$build/tests/test_network_vs_cpu" unload
    run fault 60 "$build/tests/test_fault"
}

# Ends the run where there is no GPU: the first stage has then done all that needs none. A small bench asks: it breaks nothing.
find_device() {
    local answer
    [ -z "$device" ] || return 0
    answer=$(timeout -k 5 60 "$build/bin/brr-bench" norm "layer fwd" --device cuda --seconds 0 2>&1) || {
        summary || true
        die "no GPU to be used here: $(tail -1 <<<"$answer")"
    }
    device=$(sed -n 's/^# \([^;]*\); copy.*/\1/p' <<<"$answer" | head -1 | tr -d '"\\')
}

# The table of what was done; fails where a check failed.
summary() {
    local i verdict took why failed=0
    grep -h '^ok\|^FAILED\|^ ' "$log"/network-* "$log/batch" "$log/weights" "$log/unload" 2>/dev/null | cut -c1-110 || true
    grep -hE '^#|^(detector|scan|ssd|burst|geodesic),' "$log"/bench-* 2>/dev/null | grep -v json | cut -d, -f1-6,9,10 || true
    grep -h '^path,' "$log/path" 2>/dev/null || true
    grep -hE '^(PyTorch|JAX|frameworks)' "$log/frameworks" 2>/dev/null || true
    grep -hE 'PyTorch|^detector' "$log/torch" 2>/dev/null | grep -v '^no ' || true
    for i in "${names[@]}"; do
        IFS=$'\t' read -r verdict took why < <(ended "$i")
        printf '%-20s %-12s %4d s  %s\n' "$i" "$verdict" "$took" "$why"
        case $verdict in passed | skipped) ;; *) failed=1 ;; esac
    done
    return $failed
}

check() {
    local stage libs products cudnn='' nvrtc='' failed=0 stages=("$@")
    [ $# -gt 0 ] || stages=("${all_stages[@]}")
    for stage in "${stages[@]}"; do
        [[ " ${all_stages[*]} " == *" $stage "* ]] || die "no stage '$stage'; expected ${all_stages[*]}"
    done
    export BRR_CUDA_LIBRARY=${BRR_CUDA_LIBRARY:-$build/lib/libbrr_cuda.so} OMP_WAIT_POLICY=passive
    [ -x "$build/tests/test_ops_vs_cpu" ] || die "no test programs in $build; run ninja -C $build first"
    [ -f "$BRR_CUDA_LIBRARY" ] || die "this build has no CUDA backend: it needs nvcc and libcublasLt"
    given=${LD_LIBRARY_PATH:-}
    cublas=$(find_products) libs=$(find_libraries)
    export given LD_LIBRARY_PATH=$libs${libs:+${given:+:}}$given
    export -f training doctor sanitize bench with_cudnn torch_peer starts cpu_side ops_and_network ops frameworks
    products=$(ldd "$BRR_CUDA_LIBRARY" | grep -om1 'libcublasLt\.so\.[0-9]*' || true)
    if [[ " ${stages[*]} " =~ \ (figures|peers)\  ]]; then # elsewhere no folders are searched for them
        cudnn=$(where 'libcudnn.so.9') nvrtc=$(where "libnvrtc.so.${products##*.}") # with which cuDNN compiles what it fuses
    fi
    export cudnn=$cudnn${cudnn:+${nvrtc:+:$nvrtc}}
    log=$(mktemp -d)
    trap 'rm -rf "$log"' EXIT
    export build root log cublas programs_list="${programs[*]}"
    revision=$(cat "$root/revision" 2>/dev/null || git -C "$root" describe --always --dirty)
    device=
    : >"$out.log"
    for stage in "${stages[@]}"; do
        say "gpu: stage $stage"
        "stage_$stage"
    done
    wait
    write_json # of checks side by side the last ones have ended since
    summary || failed=1
    say "gpu: $out, what each check printed in $out.log"
    return $failed
}

"$verb" "$@"
