#!/usr/bin/python3
"""The integrator alone, beside scipy: trajectories/s of the Lorenz system over 10 time units by brr-bench (RK4, 1000 steps: many side by side,
and a plain C loop) and by solve_ivp (RK45 of scipy's own step control, one trajectory at a time and all as one system), each with its error at
time 2 and 10 against DOP853 at 1e-12. The system is chaotic: errors grow by e^9 over 10 units. One thread each.
usage: scipy_lorenz.py [--bin build/bin] [--trajectories N]   (Debian's python3-scipy)"""
import argparse
import json
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    from scipy.integrate import solve_ivp
except ImportError:
    print("no scipy here (Debian: apt-get install python3-scipy)")
    sys.exit(77)

SPAN, STEPS, RTOL, ATOL = 10.0, 1000, 1e-6, 1e-9


def rate(_, s):
    x, y, z = s.reshape(3, -1)
    return numpy.concatenate((10 * (y - x), x * (28 - z) - y, x * y - 8.0 / 3 * z))


def starts(n):
    return numpy.stack((1 + 0.001 * numpy.arange(n), numpy.ones(n), numpy.ones(n)))


def rk4(s, span):
    """The integrator of brr-bench, for its error; not timed."""
    h = SPAN / STEPS
    s = s.reshape(-1)
    for _ in range(round(span / h)):
        a = rate(0, s)
        b = rate(0, s + h / 2 * a)
        c = rate(0, s + h / 2 * b)
        d = rate(0, s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
    return s.reshape(3, -1)


def adaptive(s, span, **options):
    return solve_ivp(rate, (0, span), s.reshape(-1), **options).y[:, -1].reshape(3, -1)


def one_by_one(s, span):
    return numpy.concatenate([adaptive(s[:, i : i + 1], span, rtol=RTOL, atol=ATOL) for i in range(s.shape[1])], axis=1)


def together(s, span):
    return adaptive(s, span, rtol=RTOL, atol=ATOL)


def timed(work, n):
    begun = time.process_time()
    work(starts(n), SPAN)
    return n / (time.process_time() - begun)


def ours(binary, case):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([f"{binary}/brr-bench", "ode", case, "--threads", "1", "--json", f.name], check=True, stdout=subprocess.DEVNULL)
        with open(f.name, encoding="utf-8") as written:
            result = json.load(written)["results"][0]
    return result["batch"] / result["median_ms"] * 1e3, result["batch"] / result["p10_ms"] * 1e3


def errors(work, exact):
    return [float(numpy.abs(work(starts(8), span) - exact[span]).max()) for span in exact]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--trajectories", type=int, default=4096)
    o = parser.parse_args()
    exact = {span: numpy.concatenate([adaptive(starts(8)[:, i : i + 1], span, method="DOP853", rtol=1e-12, atol=1e-12) for i in range(8)], axis=1)
             for span in (2.0, SPAN)}
    rows = []
    for case in ("lorenz batch", "lorenz plain loop"):
        median, best = ours(o.bin, case)
        rows.append({"solver": f"brr-bench ode '{case}', RK4, {STEPS} steps", "trajectories_per_s": median, "p10_trajectories_per_s": best,
                     "error_at_2_and_10": errors(rk4, exact)})
    rows.append({"solver": f"scipy RK45 rtol {RTOL:g}, one by one", "trajectories_per_s": timed(one_by_one, 16), "error_at_2_and_10": errors(one_by_one, exact)})
    rows.append({"solver": f"scipy RK45 rtol {RTOL:g}, {o.trajectories} as one system", "trajectories_per_s": timed(together, o.trajectories),
                 "error_at_2_and_10": errors(together, exact)})
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
