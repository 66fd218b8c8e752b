#!/usr/bin/env python3
"""brrctl sessions: the list, a session observed live (lines, JSON, drawn in a terminal) and closed. Observing changes nothing for the stream."""
import json
import os
import pty
import subprocess
import sys
import time

from daemon import BIN, PATIENCE
from stream_fixture import command, start, streaming_daemon
from test_stream_resume import read_files


def sessions(d):
    code, out, err = d.ctl("sessions", "--json")
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def the_session(d, process):
    deadline = time.time() + PATIENCE
    while not (found := sessions(d)):
        assert process.poll() is None and time.time() < deadline, process.communicate()
        time.sleep(0.05)
    assert len(found) == 1
    return found[0]


def observe(d, session, *options):
    return subprocess.Popen([f"{BIN}/brrctl", "sessions", "observe", session, *options], env=d.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def drawn(d, session):
    """What `observe` writes to a terminal until the session ends."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(f"{BIN}/brrctl", ["brrctl", "sessions", "observe", session], {**d.env, "TERM": "xterm"})
    out = b""
    try:
        while data := os.read(terminal, 65536):
            out += data
    except OSError:  # the end, on Linux
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, out
    return out.decode()


def check_observed(d, recording, model):
    want = subprocess.run(command(d, recording, model, "--json"), env=d.env, capture_output=True, check=True, timeout=PATIENCE) and read_files(d)
    stream = start(d, recording, model, "--realtime", "12", "--alarms", "--alarm-hop", "1", "--client", "bed 7", "--json")
    s = the_session(d, stream)
    assert s["client"] == "bed 7" and s["principal"] == f"uid:{os.getuid()}" and "quality" in s and s["realtime"] and s["connected"] and s["channels"] >= 19 and s["rate_hz"] == 256, s
    assert d.ctl("sessions")[1].count(f"{s['session'][:8]} ") == 1 and "bed 7" in d.ctl("sessions")[1]
    lines, as_json = observe(d, s["session"][:8]), observe(d, s["session"], "--json")
    picture = drawn(d, s["session"])
    out, err = stream.communicate(timeout=PATIENCE)
    assert stream.returncode == 0 and read_files(d) == want, err
    text, err = lines.communicate(timeout=PATIENCE)
    assert lines.returncode == 0 and "probability" in text and "the session has ended" in text, (text, err)
    updates = [json.loads(line) for line in as_json.communicate(timeout=PATIENCE)[0].splitlines()]
    assert as_json.returncode == 0 and "info" in updates[0] and updates[0]["info"]["session"] == s["session"], updates[:1]
    seen = [u["result"]["result_seq"] for u in updates if "result" in u]
    assert seen == list(range(seen[0], seen[0] + len(seen))) and seen, "results come in order"
    assert any("provisional" in u for u in updates) and updates[-1]["missed"] == 0
    alarms = [a["alarm"]["sample"] for a in map(json.loads, out.decode().splitlines()) if "alarm" in a]
    heard = [u["alarm"]["time_s"] * 256 for u in updates if "alarm" in u]
    assert heard == alarms[len(alarms) - len(heard):], (heard, alarms)
    assert "\033[2J" in picture and s["session"] in picture and any(c in picture for c in "▁▂▃▄▅▆▇█"), picture[-2000:]
    assert not sessions(d)


def check_closed(d, recording, model):
    stream = start(d, recording, model, "--realtime", "1")
    s = the_session(d, stream)
    code, out, err = d.ctl("sessions", "close", s["session"], "--json")
    assert code == 0 and json.loads(out) == {"closed": s["session"]}, err
    out, err = stream.communicate(timeout=PATIENCE)
    assert stream.returncode == 1 and b"[SESSION_CLOSED]" in err and len(err.splitlines()) == 1, err
    for verb in ("close", "observe"):
        code, out, err = d.ctl("sessions", verb, s["session"])
        assert code == 3 and s["session"] in err, (code, err)
    assert "no stream is open" in d.ctl("sessions")[1]
    assert d.ctl("sessions", "observe")[0] == 2 and d.ctl("sessions", "clsoe", "x")[0] == 2


def main():
    with streaming_daemon() as (d, recording, model):
        check_observed(d, recording, model)
        assert d.stop() == 0
        d.start()
        assert not sessions(d), "a stream that has ended does not come back"
        check_closed(d, recording, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
