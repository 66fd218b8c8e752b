#!/usr/bin/env python3
"""Live streams while the daemon is stopped and killed in turn: brrctl writes the files of an undisturbed run, and the sessions of brr-load lose
neither a sample nor a result. BRR_TEST_RESTARTS: how many of each kind (2)."""
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy

from daemon import BIN, PATIENCE, SOURCE, trained_network
from page_beds import traces
from stream_fixture import command, streaming_daemon
from test_stream_resume import alarms, read_files

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

RESTARTS = int(os.environ.get("BRR_TEST_RESTARTS", 2))
GAP_S = (2.0, 4.0)  # between a start and the next end


def restart(d, signum):
    d.process.send_signal(signum)
    code = d.process.wait(timeout=PATIENCE)
    assert code == (0 if signum == signal.SIGTERM else -signal.SIGKILL), f"{code}\n{d.read_log()}"
    d.start()


def check(d, recording, model, want, dice):
    ends = [signal.SIGTERM, signal.SIGKILL] * RESTARTS
    dice.shuffle(ends)
    seconds = len(ends) * (GAP_S[1] + 3) + 8
    pace = want[2] / seconds
    stream = subprocess.Popen(command(d, recording, model, "--alarms", "--json", "--realtime", f"{pace:.3f}"), env=d.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    load = subprocess.Popen([f"{BIN}/brr-load", "--model", model, "--sessions", "4", "--seconds", str(max(20, int(seconds))), "--json"], env=d.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for i, signum in enumerate(ends):
            time.sleep(dice.uniform(*GAP_S))
            assert stream.poll() is None or i, "the stream ended before the first restart: " + stream.communicate()[1]
            restart(d, signum)
        out, err = stream.communicate(timeout=PATIENCE)
        assert stream.returncode == 0, err + d.read_log()[-4000:]
        end = json.loads(out.splitlines()[-1])
        assert alarms(out) == want[0], "alarms differ after restarts"
        assert read_files(d) == want[1], "files differ after restarts"
        assert 0 < end["reconnects"] <= len(ends) + 5, end
        out, err = load.communicate(timeout=PATIENCE)
        got = json.loads(out)
        assert load.returncode == 0 and got["samples_lost"] == got["results_missing"] == 0 and got["finished"] == 4, (got, err)
        assert got["reconnects"] >= 4, got
    finally:
        for process in (stream, load):
            process.kill()
            process.wait()
    print(f"{', '.join(s.name for s in ends)}: {end['reconnects']} reconnects, the same alarms and files; brr-load lost nothing")


def until(condition, what):
    deadline = time.time() + PATIENCE
    while not condition():
        assert time.time() < deadline, what
        time.sleep(0.05)


def eeg_of(d, session, first, n):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/streams/{session}/eeg?from={first}&n={n}", timeout=PATIENCE) as f:
        return traces(f.read())


def has_page(d, session):
    try:
        return eeg_of(d, session, 0, 0)[0]["pins"]
    except urllib.error.HTTPError:
        return False  # it is shown a second after the start


def onset_of_alarm(d, recording, model):
    """The EEG of an alarm is on the disk with its stream: it is there after kill -9, before the client comes back, and goes with the stream."""
    stream = subprocess.Popen(command(d, recording, model, "--alarms", "--json", "--realtime", "8"), env=d.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    try:
        at = next(json.loads(line)["alarm"]["sample"] for line in stream.stdout if '"alarm"' in line)
        [session] = [s for s in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if s["client"] == "brrctl"]
        file = f"{d.dir}/results/sessions/{session['session']}.eeg"
        until(lambda: os.path.exists(file), "the EEG of the alarm")
        assert os.stat(file).st_mode & 0o777 == 0o600
        stream.send_signal(signal.SIGSTOP)  # the client does not come back yet
        onset = lambda: eeg_of(d, session["session"], at - 256, 256)
        head, before = onset()
        restart(d, signal.SIGKILL)
        until(lambda: session["session"] in d.ctl("sessions", "--json")[1], "the stream")
        until(lambda: has_page(d, session["session"]), "its page")
        after, uv = onset()
        assert after["rows"] == head["rows"] and numpy.isfinite(before).all() and numpy.array_equal(uv, before), (after, uv, before)
        assert [m for m in after["marks"] if m["kind"] == "alarm_on"][0]["first"] == at, after
        assert d.ctl("sessions", "close", session["session"])[0] == 0
        until(lambda: not os.path.exists(file), "the end of the EEG with its stream")
    finally:
        stream.kill()
        stream.wait()


def go_on_with_the_model_of_before(d, recording):
    """A built-in model that the next version has with other bytes: a stream goes on with those that it began with."""
    network, built_in = trained_network(f"{d.dir}/network"), f"{d.dir}/cache/builtin/ward.safetensors"
    subprocess.run(command(d, recording, network), env=d.env, check=True, stdout=subprocess.DEVNULL)
    want = read_files(d)[1]
    shutil.copy(network, built_in)  # an earlier version was here, and `ward` was a network
    stream = subprocess.Popen(command(d, recording, "ward", "--realtime", "20"), env=d.env, stdout=subprocess.DEVNULL)
    streams = lambda: map(json.loads, d.ctl("sessions", "--json")[1].splitlines())
    until(lambda: any(s["model"] == "ward" and s["received_through"] for s in streams()), "the stream, which has a snapshot when it sends")
    restart(d, signal.SIGTERM)
    assert not filecmp.cmp(network, built_in, shallow=False), "the daemon has not written its own model"
    assert stream.wait(timeout=PATIENCE) == 0 and read_files(d)[1] == want, "the stream went on with other weights"
    subprocess.run(command(d, recording, "ward"), env=d.env, check=True, stdout=subprocess.DEVNULL)
    assert read_files(d)[1] != want


def main():
    dice = random.Random(test_seed())
    with streaming_daemon() as (d, recording, model):
        r = subprocess.run(command(d, recording, model, "--alarms", "--json"), env=d.env, capture_output=True, text=True, timeout=PATIENCE, check=True)
        want = alarms(r.stdout), read_files(d), json.loads(r.stdout.splitlines()[-1])["duration_s"]
        assert want[0], "the recording has no alarm to compare"
        onset_of_alarm(d, recording, model)
        check(d, recording, model, want, dice)
        go_on_with_the_model_of_before(d, recording)
    return 0


if __name__ == "__main__":
    sys.exit(main())
