#!/usr/bin/env python3
"""Live streams of two daemons that share their snapshots (sessions.shared), while one of them at a time is killed: the streams move to the other
one, brrctl writes the files of an undisturbed run, and each alarm comes once. BRR_TEST_KILLS: how many (3)."""
import json
import os
import random
import signal
import subprocess
import sys
import time

from daemon import PATIENCE, SOURCE, Daemon, until
from stream_fixture import command, streaming_daemon
from test_stream_resume import alarms, read_files

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

KILLS = int(os.environ.get("BRR_TEST_KILLS", 3))
GAP_S = (2.0, 4.0)  # between two kills


def where(daemons):
    """Which daemon has the stream of brrctl and how many of its samples, or None."""
    for i, d in enumerate(daemons):
        if d.process.poll() is None:
            _, out, _ = d.ctl("sessions", "--json")
            for s in map(json.loads, out.splitlines()):
                if s["client"] == "mover" and s["connected"]:
                    return i, s["received_through"]
    return None


def wait_for(daemons, stream, other_than):
    """The daemon to which the stream has moved, once it gets samples there: a client that sends was told that its stream is open."""
    first = {}

    def sends():
        assert stream.poll() is None, "the stream ended early: " + stream.communicate()[1] + "".join(d.read_log()[-3000:] for d in daemons)
        at, received = where(daemons) or (None, 0)
        return at not in (None, other_than) and received > first.setdefault(at, received) and (at,)
    return until(sends, f"the stream did not move from {other_than}", pause_s=0.1)[0]


def check(daemons, recording, model, want, dice):
    env = {**daemons[0].env, "BRR_ENDPOINT": ",".join(d.env["BRR_ENDPOINT"] for d in daemons)}
    seconds = KILLS * (GAP_S[1] + 4) + 8
    stream = subprocess.Popen(command(daemons[0], recording, model, "--alarms", "--json", "--client", "mover", "--move-after", "0.5",
                                      "--realtime", f"{want[2] / seconds:.3f}"),
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        at = wait_for(daemons, stream, None)
        for _ in range(KILLS):
            time.sleep(dice.uniform(*GAP_S))
            daemons[at].process.send_signal(signal.SIGKILL)
            daemons[at].process.wait()
            then = wait_for(daemons, stream, at)
            daemons[at].start()
            at = then
        out, err = stream.communicate(timeout=PATIENCE)
        assert stream.returncode == 0, err + "".join(d.read_log()[-4000:] for d in daemons)
        end = json.loads(out.splitlines()[-1])
        assert alarms(out) == want[0], "alarms differ after the moves"
        assert read_files(daemons[0]) == want[1], "files differ after the moves"
        assert end["reconnects"] >= KILLS, end
    finally:
        stream.kill()
        stream.wait()
    print(f"{KILLS} kills: {end['reconnects']} reconnects, the same alarms and files")


def main():
    dice = random.Random(test_seed())
    with streaming_daemon() as (alone, recording, model):
        r = subprocess.run(command(alone, recording, model, "--alarms", "--json"), env=alone.env, capture_output=True, text=True, timeout=PATIENCE,
                           check=True)
        want = alarms(r.stdout), read_files(alone), json.loads(r.stdout.splitlines()[-1])["duration_s"]
        assert want[0], "the recording has no alarm to compare"
        daemons = []
        for name in "ab":
            os.makedirs(f"{alone.dir}/{name}")
            daemons.append(Daemon(f"{alone.dir}/{name}", [f"sessions.shared={alone.dir}/shared", f"sessions.name={name}"]).start())
        refused = Daemon(f"{alone.dir}/c", [f"sessions.shared={alone.dir}/shared", "sessions.name=a"])
        refused.spawn()
        assert refused.process.wait(timeout=PATIENCE) != 0 and "another daemon has this sessions.name" in refused.read_log(), refused.read_log()
        check(daemons, recording, model, want, dice)
        left = [name for d in "ab" for name in os.listdir(f"{alone.dir}/shared/{d}") if len(name) == 32]
        assert len(left) <= 1, left  # the ended stream's, in case its client did not hear the Summary
        for d in daemons:
            d.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
