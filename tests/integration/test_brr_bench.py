"""brr-bench as a tool: its lines, its file, comparisons with an earlier run, and what it refuses."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(os.environ.get("BRR_BIN", "build/bin")) / "brr-bench"
COLUMNS = ("bench, case, device, dtype, batch, median_ms, p10_ms, p90_ms, floor_ms, ratio_to_floor, rate, unit").split(", ")
failures = []


def check(ok, text):
    if not ok:
        failures.append(text)
        print("FAILED:", text)


def run(*args):
    return subprocess.run([str(BENCH), *map(str, args), "--seconds", "0"], capture_output=True, text=True)


def scaled(path, out, factor):
    data = json.loads(path.read_text())
    for row in data["results"]:
        row["ratio_to_floor"] *= factor
    out.write_text(json.dumps(data))
    return out


def main():
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        first = directory / "first.json"
        done = run("--filter", "norm layer", "--json", first)
        check(done.returncode == 0, f"a plain run failed: {done.stderr}")
        lines = done.stdout.splitlines()
        check(lines[1].split(", ") == COLUMNS and len(lines) == 4, f"lines are {lines}")
        for line in lines[2:]:
            cells = line.split(", ")
            check(len(cells) == len(COLUMNS) and cells[0] == "norm" and all(float(c) > 0 for c in cells[5:10]), f"line {line}")
        data = json.loads(first.read_text())
        check([r["case"] for r in data["results"]] == ["layer fwd", "layer bwd"], "the file has other cases than the lines")
        check(all(data[k] for k in ("machine", "cpu_model", "cpu_family", "commit", "time", "copy_gbps", "gflops_f32")),
              "the file does not name its machine")
        check((data["gflops_bf16"] > 0) == ("bf16_instruction" in data) == ("GFLOP/s (" in lines[0]),
              "a bf16 rate stands without the instruction that it was measured with")
        check(sum('"bench"' in line for line in first.read_text().splitlines()) == 2, "not one line per case")
        worse = run("--filter", "norm layer", "--compare", scaled(first, directory / "fast.json", 1e-3))
        check(worse.returncode == 1 and "further from their floors" in worse.stderr, "a regression was not reported")
        better = run("--filter", "norm layer", "--compare", scaled(first, directory / "slow.json", 1e3))
        check(better.returncode == 0 and "x of before" in better.stdout, "an improvement was refused")
        alone = run("norm", "gated rms fwd", "--processor-time", "--json", directory / "alone.json")
        check(alone.returncode == 0, f"processor time failed: {alone.stderr}")
        clocks = [json.loads((directory / name).read_text())["clock"] for name in ("first.json", "alone.json")]
        check(clocks == ["wall", "processor time of one thread"], f"the files name the clocks {clocks}")
        other = run("norm", "gated rms fwd", "--compare", first)
        check(other.returncode == 1 and "none of these cases" in other.stderr, "a comparison with nothing passed")
    for args, text in ((("no-such-bench",), "no case"), (("--dtype", "f16"), "lists the options"), (("--compare", "/proc/nonexistent"), "/proc/nonexistent"),
                       (("--processor-time", "--threads", "2"), "one thread")):
        done = run(*args)
        check(done.returncode == 1 and text in done.stderr, f"{args}: {done.stderr}")
    print("brr-bench:", "failed" if failures else "lines, file, comparison and refusals as promised")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
