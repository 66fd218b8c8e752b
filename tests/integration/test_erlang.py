#!/usr/bin/env python3
"""client/erlang, built as its user does: Erlang and Elixir get the values of the formula in NumPy, with every option, and errors as text."""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

SOURCE, BUILD = os.environ["BRR_SOURCE_DIR"], os.environ["BRR_BUILD_DIR"]
sys.path[:0] = [f"{SOURCE}/client/python", f"{SOURCE}/tests"]
from brr import scan  # noqa: E402
from seed import test_seed  # noqa: E402

B, L, D, N = 3, 60, 24, 16
ERLANG = """Read = fun(Name) -> {ok, X} = file:read_file("in/" ++ Name), X end,
[U, Delta, A, B, C, Skip, Bias, Z, H0] = [Read(Name) || Name <- ["u", "delta", "a", "b", "c", "d", "delta_bias", "z", "h0"]],
Shape = {%d, %d, %d, %d},
ok = file:write_file("erlang.seed", brr_scan:selective(U, Delta, A, B, C, Shape, #{clamp => {0.001, 0.1}, state => false})),
ok = file:write_file("erlang.all", brr_scan:selective(U, Delta, A, B, C, Shape, #{softplus => true, state => true, d => Skip, delta_bias => Bias, z => Z, h0 => H0})),
{error, Text} = brr_scan:selective(U, Delta, A, B, <<1, 2>>, Shape, #{}),
{error, Other} = brr_scan:selective(U, Delta, A, B, C, {0, 1}, #{}),
Wrong = [begin {error, Why} = brr_scan:selective(U, Delta, A, B, C, Shape, O), [Why, "\\n"] end ||
         O <- [#{clamp => {0.1, 0.001}}, #{clamp => {0, 0}}, #{softplus => 1}, #{softplu => true}]],
io:put_chars([Text, "\\n", Other, "\\n", Wrong]), init:stop().""" % (B, L, D, N)
LARGE = """Bytes = <<0:(2000 * 2000 * 32)>>,
{error, Text} = brr_scan:selective(Bytes, Bytes, Bytes, Bytes, Bytes, {2000, 1, 2000, 2000}, #{state => true}),
io:put_chars(Text), init:stop()."""  # 32 GB of output
ELIXIR = """read = fn name -> File.read!("in/" <> name) end
[u, delta, a, b, c] = Enum.map(["u", "delta", "a", "b", "c"], read)
options = Enum.map([:d, :delta_bias, :z, :h0], fn name -> {name, read.(Atom.to_string(name))} end)
shape = {%d, %d, %d, %d}
tasks = for _ <- 1..8, do: Task.async(fn -> Brr.Scan.selective(u, delta, a, b, c, shape, clamp: {0.001, 0.1}) end)
[one] = tasks |> Enum.map(&Task.await/1) |> Enum.uniq()
File.write!("elixir.seed", one)
File.write!("elixir.all", Brr.Scan.selective(u, delta, a, b, c, shape, [softplus: true, state: true] ++ options))
{:error, text} = Brr.Scan.selective(u, delta, a, b, c, shape, z: <<0>>)
true = is_binary(text)
IO.puts(text)""" % (B, L, D, N)


def formula(x, clamp=None, whole=False):
    """In float64, token by token: the output, and the state after."""
    x = {k: v.astype(np.float64) for k, v in x.items()}
    step = np.logaddexp(0, x["delta"] + x["delta_bias"]) if whole else np.clip(x["delta"], *clamp)
    h, out = x["h0"] if whole else np.zeros((B, D, N)), []
    for t in range(L):
        h = np.exp(step[:, t, :, None] * x["a"]) * h + (step[:, t] * x["u"][:, t])[..., None] * x["b"][:, t, None]
        y = (h * x["c"][:, t, None]).sum(-1)
        if whole:
            y = (y + x["d"] * x["u"][:, t]) * x["z"][:, t] / (1 + np.exp(-x["z"][:, t]))
        out.append(y)
    return np.stack(out, 1), h


def main():
    for program in ("erlc", "mix"):
        if not shutil.which(program):
            print(f"skipped: package: there is no {program}; ./dev deps installs erlang-dev and elixir")
            return 77
    rng = np.random.default_rng(test_seed())
    x = {"u": (B, L, D), "delta": (B, L, D), "a": (D, N), "b": (B, L, N), "c": (B, L, N), "d": (D,), "delta_bias": (D,), "z": (B, L, D), "h0": (B, D, N)}
    x = {k: rng.standard_normal(shape).astype(np.float32) for k, shape in x.items()}
    x["a"], x["delta"] = -np.exp(x["a"]), 0.1 * np.abs(x["delta"])
    with tempfile.TemporaryDirectory() as folder:
        own = f"{folder}/erlang"
        shutil.copytree(f"{SOURCE}/client/erlang", own)
        os.makedirs(f"{own}/in")
        for name, value in x.items():
            value.tofile(f"{own}/in/{name}")
        environment = {**os.environ, "SCAN_CFLAGS": f"-I{SOURCE}/client/scan -Werror", "SCAN_LIBS": f"-L{BUILD}/lib -lbrr_scan -Wl,-rpath,{BUILD}/lib",
                       "HOME": folder, "BRR_SCAN_THREADS": "1", "LC_ALL": "C.UTF-8"}

        def run(*words):
            r = subprocess.run(words, cwd=own, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            assert r.returncode == 0, (words, r.stdout, r.stderr)
            return r.stdout
        run("make", "all")
        said = run("erl", "-noshell", "-pa", "ebin", "-eval", ERLANG)
        assert "c does not fit: expected float32 of batch 3, length 60, channels 24, states 16" in said and "five binaries" in said, said
        for words in ("clamp ({Low, High}", "softplus (true or false)", "an option (d, delta_bias"):
            assert words in said, (words, said)
        assert said.count("clamp ({Low, High}") == 2, said
        said = run("sh", "-c", 'ulimit -v 16000000 && exec erl -noshell -pa ebin -eval "$0"', LARGE)
        assert "out of memory for the output" in said, said
        shutil.rmtree(f"{own}/priv")  # mix makes it again
        said = run("mix", "run", "-e", ELIXIR)
        assert "z does not fit" in said, said
        for name, (want, state) in (("seed", formula(x, clamp=(0.001, 0.1))), ("all", formula(x, whole=True))):
            erlang, elixir = (np.fromfile(f"{own}/{language}.{name}", np.float32) for language in ("erlang", "elixir"))
            want = np.concatenate([want.ravel(), state.ravel()]) if name == "all" else want.ravel()
            error = abs(erlang - want).max() / abs(want).max()
            assert erlang.shape == want.shape and error < 1e-5 and np.array_equal(erlang, elixir), (name, error)
        own, _ = scan.selective_scan(x["u"], x["delta"], x["a"], x["b"][:, :, None], x["c"][:, :, None], softplus=False, clamp=(0.001, 0.1))
        assert np.array_equal(np.fromfile(f"{folder}/erlang/erlang.seed", np.float32), own.ravel()), "the bits of Python's"
        print(f"{error:.1e} from NumPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
