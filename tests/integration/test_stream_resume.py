#!/usr/bin/env python3
"""Streams whose connections are cut at random moments: brrctl, libbrr and the stock Python client write what an undisturbed run writes;
with --no-resume the first cut is the end."""
import json
import os
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE
from relay import Relay
from stream_fixture import command, load_example, start, streaming_daemon, trace

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402


def alarms(text):
    """Alarms of the JSON lines, without the daemon's clock."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [(a["on"], a["sample"], a["probability"]) for a in (line.get("alarm") for line in lines) if a]


def read_files(d):
    with open(f"{d.dir}/f.tsv", "rb") as events, open(f"{d.dir}/f.npy", "rb") as probabilities:
        return events.read(), probabilities.read()


def finished(process):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


def check_brrctl(d, relay, recording, model):
    want = alarms(finished(start(d, recording, model, "--alarms", "--json"))[0]), read_files(d)
    through = {**d.env, "BRR_ENDPOINT": relay.endpoint}
    total = 0
    for options in (("--realtime", "20"), ("--realtime", "40", "--chunk-samples", "77")):
        relay.expect()
        r = subprocess.run(command(d, recording, model, "--alarms", "--json", *options), env=through, capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 0, r.stderr
        end = json.loads(r.stdout.splitlines()[-1])
        assert alarms(r.stdout) == want[0], "alarms differ after cuts"
        assert read_files(d) == want[1], "files differ after cuts"
        assert end["reconnects"] == r.stderr.count("the stream goes on") > 0, (end, r.stderr)
        total += end["reconnects"]
    print(f"{total} cuts, the same alarms and files")
    return want


def check_no_resume(d, relay, recording, model):
    relay.expect()
    r = subprocess.run(command(d, recording, model, "--realtime", "10", "--no-resume"), env={**d.env, "BRR_ENDPOINT": relay.endpoint},
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 4 and "connection" in r.stderr and not os.path.exists(f"{d.dir}/f.tsv"), (r.returncode, r.stderr)


def check_examples(d, relay, recording, model):
    direct, through = d.env, {**d.env, "BRR_ENDPOINT": relay.endpoint}
    python = [sys.executable, f"{SOURCE}/client/examples/stream.py", recording, model, "8"]  # small chunks: long enough for some cuts
    want = subprocess.run(python, env=direct, capture_output=True, text=True, timeout=PATIENCE, check=True)
    relay.expect()
    got = subprocess.run(python, env=through, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert got.returncode == 0 and got.stdout == want.stdout and want.stdout and not want.stderr, (got.stderr, got.stdout, want.stdout)
    assert "was lost" in got.stderr, got.stderr
    labels, rate, rows = load_example().read_edf(recording)
    relay.expect()
    program = subprocess.Popen([os.path.join(os.path.dirname(BIN), "examples", "example_stream"), model, str(rate), ",".join(labels)], env=through,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    frames = b"".join(row.tobytes() for row in rows)  # rows; turned into frames below
    n, channels = len(rows[0]), len(rows)
    frames = b"".join(frames[(c * n + i) * 4:(c * n + i) * 4 + 4] for i in range(n) for c in range(channels))
    cuts = relay.cuts
    for at in range(0, len(frames), 1 << 16):
        program.stdin.write(frames[at:at + (1 << 16)])
        program.stdin.flush()
        time.sleep(0.01)
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0 and out.decode() == want.stdout and relay.cuts > cuts, err


def main():
    with streaming_daemon() as (d, recording, model):
        relay = Relay(d.dir, d.socket, test_seed())
        relay.cut_at_random(0.05, 0.5)
        check_brrctl(d, relay, recording, model)
        check_no_resume(d, relay, recording, model)
        check_examples(d, relay, recording, model)
        relay.close()
        events, probabilities, text = trace(d, recording, model)  # and as before
        assert json.loads(text.splitlines()[-1])["reconnects"] == 0 and events
        deadline = time.time() + PATIENCE
        while "brrd_stream_sessions 0" not in (text := d.ctl("metrics", "brrd_stream_sessions")[1]).splitlines():
            assert time.time() < deadline, f"sessions stay: {text}"
            time.sleep(0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
