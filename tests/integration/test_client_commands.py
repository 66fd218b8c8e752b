#!/usr/bin/env python3
"""Every command of brrctl: one JSON object a line, useful help, hints for typing errors, exit codes that scripts can use."""
import fcntl
import glob
import hashlib
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios

from daemon import BIN, PATIENCE, SOURCE, make_corpus, until
from stream_fixture import streaming_daemon


BIPOLAR = [p.encode() for p in ("Fp1-F7 F7-T3 T3-T5 T5-O1 Fp2-F8 F8-T4 T4-T6 T6-O2 Fp1-F3 F3-C3 C3-P3 P3-O1 Fp2-F4 F4-C4 C4-P4 P4-O2 Fz-Cz Cz-Pz "
                               "Pz-O1").split()]


def lines(d, *args, code=0):
    got, out, err = d.ctl(*args, "--json")
    assert got == code, (args, got, out, err)
    return [json.loads(line) for line in out.splitlines()]


def check_usage(d):
    code, out, err = d.ctl("help")
    commands = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert code == 0 and {"submit", "stream", "detect", "top", "doctor", "windows", "dataset"} <= set(commands)
    for command in commands:
        code, out, err = d.ctl(command, "--help")
        assert code == 0 and f"usage: brrctl {command}" in out and "example: " in out and ("--json" in out or command == "completion"), (command, out)
    for args, hint in ((["strem"], "stream"), (["stream", "x", "--modle", "y"], "--model"), (["checkpoint", "verfy", "x"], "verify")):
        code, out, err = d.ctl(*args)
        assert code == 2 and "did you mean " + hint in err, (args, err)
    code, out, err = d.ctl("submit", "x.yaml", "--validate")
    assert code == 2 and "`brrctl validate FILE` is a command of its own" in err, err
    code, out, err = d.ctl("benchmark", "x", "--labels")  # an option of its own that has no value here, and also a command
    assert code == 2 and "of its own" not in err, err
    for args in (["store", "lss", "file:///tmp"], ["store", "put", "x"], ["checkpoint", "get", "a", "b"], ["dataset", "x", "--unlabeled", "nothing"],
                 ["stream", "x", "--model", "m", "--plot", "x.gif"], ["stream", "x", "--model", "m", "--probs", "x.csv"],
                 ["stream", "x", "--model", "m", "--output", "x.json"], ["stream", "x", "--model", "m", "--output", "x.tsv", "--format", "json"],
                 ["dataset", d.dir, "--montage", "bipolar18"], ["windows", "x", "--montage", "bipolar18"], ["submit", "x", "--set", "data.source"],
                 ["burst", "generate", "ring", "--out", "x", "--synapses", "9999999999"], ["jobs", "--endpoint", "foo"],
                 ["tls", "token", d.dir, "--role", "read", "--name", "x", "--until", "tomorrow"],
                 ["tls", "token", d.dir, "--role", "read", "--name", "x", "--until", "2020-01-01"]):
        code, out, err = d.ctl(*args)
        assert code == 2 and "expected" in err and "e+" not in err and len(err.splitlines()) == 1 and not out, (args, code, err)
    for args in (["job"], ["stream", "x"], ["detect", "x", "--model", "m"], ["stream", "x", "--model", "m", "--realtime", "fast"], ["stream", "x", "--model"],
                 ["tls", "token", d.dir, "--name", "x"], ["tls", "token", d.dir, "--role", "read"], ["tls", "client", d.dir],
                 ["geodesic", "predict", "x", "--csv", "y"], ["stream", "x", "--model", "m", "--client", ""]):
        code, out, err = d.ctl(*args)
        assert code == 2 and err and not out, (args, code, err)
    for args in (["alarms", "mark", "x", "true", "--for", "2m"], ["alarms", "test", "x", "--person", "Ana B"], ["tls", "init", d.dir, "--role", "read"],
                 ["tls", "client", d.dir, "--name", "x", "--until", "2030-01-01"], ["tls", "revoke", d.dir, "--name", "x", "--names", "y"]):
        code, out, err = d.ctl(*args)  # it would do nothing
        assert code == 2 and f"{args[0]} {args[1]} has no option '{args[-2]}'" in err and not out, (args, code, err)
    kinds = re.findall(r"\w+", d.ctl("journal", "--kind", "nothing")[2].partition("expected ")[2])
    said = set(d.ctl("journal", "--help")[1].partition("Kinds: ")[2].partition(".")[0].split())
    assert said and set(kinds) - {"or"} == said, (kinds, said)
    assert lines(d, "ready") == [{"ready": True}]
    for args, code, text in ((["plot", d.dir], 1, f"{d.dir} is a directory; expected a file"), (["usage", "--since", "1s"], 0, ""),
                             (["journal", "--since", "1h", "--until", "2h"], 2, "--until 2h is not after --since 1h"),
                             (["dataset", f"{d.dir}/none.edf"], 3, f"there is no {d.dir}/none.edf; expected a recording"),
                             (["labels", "import", d.dir, "seizures.csv"], 1, "is a folder; expected `brrctl labels import TABLE [DIR]`")):
        got = d.ctl(*args)
        assert got[0] == code and text in got[2] and (code or got[1] == "no jobs\n"), (args, got)
    for args in (["detect", "x", "--model", "a", "--model=b"], ["jobs", "--endpoint", "unix:/a", "--endpoint", "unix:/b"],
                 ["plot", "x", "--from", "1", "--out", "a.svg", "--output", "b.svg"]):
        code, out, err = d.ctl(*args)
        assert code == 2 and "is given twice" in err and not out, (args, code, err)
    with open(f"{d.dir}/notes.txt", "w") as f:
        f.write("what I have to do-1\n")
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/burst.yaml", "--id-file", f"{d.dir}/notes.txt")
    assert code == 1 and "holds something else than the id of a job" in err and not out, (code, err)
    code, out, err = d.ctl("job", "nobody")
    assert code == 3 and "nobody" in err
    code, out, err = d.ctl("detect", f"{d.dir}/none", "--model", "m", "--output", f"{d.dir}/out")
    assert code == 3 and f"{d.dir}/none" in err and not out and not os.path.exists(f"{d.dir}/out"), err
    code, out, err = d.ctl("metrics", "nobody")
    assert code == 3 and "nobody" in err
    code, out, err = d.ctl("version", "--endpoint", f"unix:{d.dir}/none")
    assert code == 4 and "no daemon answers" in err and re.fullmatch(r"brrctl \d+\.\d+\.\d+ \(.*\)\n", out), (out, err)
    assert d.ctl("version", "--endpoint", f"unix:{d.dir}/none", "--json")[1] == ""
    code, out, err = d.ctl("stream", d.dir, "--model", "demo")
    assert code == 1 and f"{d.dir} is a folder" in err and f"brrctl detect {d.dir} --model" in err and not out, err
    code, out, err = d.ctl("stream", "x", "-m", "demo")
    assert code == 2 and "(options begin with --); `brrctl stream --help` lists them" in err, err
    at = {text.index(what) for text, what in ((next(line for line in d.ctl(*words)[1].splitlines() if what in line), what) for words, what in (
        (["help"], "cancel jobs;"), (["help"], "print the log of")))}
    assert len(at) == 1, at  # an ellipsis is one column
    code, out, err = d.ctl("version", "--endpoint", "nohost.invalid:7443")
    assert code == 4 and err == "brrctl: cannot find the host nohost.invalid\n", err
    own = subprocess.run([f"{BIN}/brrctl", "--version", "--json"], env={**d.env, "BRR_ENDPOINT": f"unix:{d.dir}/none"}, capture_output=True, text=True)
    assert own.returncode == 0 and json.loads(own.stdout)["version"] == lines(d, "version")[0]["version"], own
    assert d.ctl("ps", "--json") == d.ctl("list", "--json") == d.ctl("jobs", "--json")
    code, out, err = d.ctl("train", f"{d.dir}/none.yaml")
    assert code == 3 and "none.yaml" in err, err
    helps = {c: d.ctl(c, "--help")[1] for c in ("score", "store", "stream", "logs", "windows")}
    assert "--endpoint" not in helps["score"] and "S3 server" in helps["store"] and "unix:" not in helps["store"], helps
    assert "log" not in helps["stream"].partition("--follow")[2].partition("--")[0] and "default 60" in helps["windows"], helps
    assert d.ctl("score", "x", "y", "--endpoint", d.socket)[0] == 3  # accepted wherever it stands
    code, out, err = d.ctl("burst", "info", "x", "--ticks", "3")
    assert code == 2 and "burst info has no option '--ticks'" in err, err
    assert d.ctl("completion", "bash", "--json")[0] == 2
    for command, options in (("burst", ("--neurons", "--every-tick", "--queue")), ("lsl", ("--unit", "--wait", "--yes"))):  # completion offers them too
        out = d.ctl(command, "--help")[1]
        assert all(f" {option}" in out.partition("Options of ")[2].partition("\n\n")[0] for option in options), out
    keys = {k["key"]: k for k in lines(d, "keys")}
    assert keys["data.source"]["required"] and keys["data.window_s"]["default"] == "60" and keys["training.seed"]["accepts"], keys
    assert keys["data.source"]["kinds"] == ["train", "evaluate", "detect"] and keys["detect.model"]["kinds"] == ["detect"], keys
    own = {k["key"] for k in lines(d, "keys", "detect")}
    assert own == {k for k, row in keys.items() if "detect" in row["kinds"]} and "training.seed" not in own, own
    code, out, err = d.ctl("keys", "nothing")
    assert code == 2 and "expected train, evaluate" in err and not out, err
    for verb in ("ls", "check"):
        code, out, err = d.ctl("store", verb, f"file://{d.dir}/none/")
        assert code == 3 and f"{d.dir}/none" in err and not out, (code, out, err)
    assert d.ctl("store", "ls", f"file://{d.dir}/")[0] == 0
    for shell in ("bash", "zsh", "fish"):
        code, out, err = d.ctl("completion", shell)
        assert code == 0 and all(c in out for c in commands) and "model" in out
        if shell == "bash":
            for words, offered in (("stream --mod", "--model"), ("checkpoint pr", "promote"), ("burst obs", "observe"), ("burst run x --pl", "--plot"), ("help dat", "dataset"), ("tls token x --role st", "stream"), ("burst generate ri", "ring"), ("dataset x --labels b", "bids-tsv"), ("completion z", "zsh"), ("keys ev", "evaluate"),
                                   ("report /dev/nul", "/dev/null"), ("submit /dev/nul", "/dev/null"), ("submit x --set training.ep", "training.epochs=")):
                asked = f"{out}\nCOMP_WORDS=(brrctl {words}); COMP_CWORD={len(words.split())}; _brrctl; echo \"got ${{COMPREPLY[*]}}\""
                r = subprocess.run(["bash", "-c", asked], capture_output=True, text=True)
                assert r.stdout.strip() == "got " + offered, (words, r)


def on_terminal(d, columns, *args, term="xterm"):
    """What it writes on a terminal of so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([f"{BIN}/brrctl", *args], env={**d.env, "TERM": term}, stdin=its, stdout=its, stderr=its)
    os.close(its)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how the end of a terminal looks
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert child.wait() == 0, text
    return text.decode()


def check_top(d):
    """Lines fit the width; q quits, and leaves the terminal as it was; once, with rates."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 40, 0, 0))
    before = termios.tcgetattr(its)
    child = subprocess.Popen([f"{BIN}/brrctl", "top", "--interval", "0.2"], env={**d.env, "TERM": "xterm"}, stdin=its, stdout=its, stderr=its)
    text = b""
    while text.count(b"q quits") < 2:
        text += os.read(ours, 65536)
    os.write(ours, b"q")
    while child.poll() is None:  # its output is read so that it can end; our own end of the terminal keeps a read from ending
        if select.select([ours], [], [], 0.1)[0]:
            os.read(ours, 65536)
    assert child.returncode == 0 and termios.tcgetattr(its) == before
    os.close(its)
    os.close(ours)
    picture = text.split(b"\033[2J")[1].decode().replace("\r", "")
    assert picture.count("\n") == 4 and all(len(line) < 40 for line in picture.split("\n")[:4]), picture
    code, out, err = d.ctl("top", "--once", "--interval", "0.2")
    assert code == 0 and "- calls/s" not in out and " calls/s" in out, out
    assert lines(d, "top", "--once", "--interval", "0.2")[0]["rpc_requests_per_s"] is not None


def check_drain_asks(d):
    ours, its = pty.openpty()
    child = subprocess.Popen([f"{BIN}/brrctl", "drain"], env=d.env, stdin=its, stdout=its, stderr=its)
    os.close(its)
    os.write(ours, b"n\n")
    assert child.wait(timeout=PATIENCE) == 1
    shown = b""
    while b"[y/N]" not in shown:  # the echo of the answer may be a part of its own; at the end of all a read fails
        shown += os.read(ours, 65536)
    os.close(ours)
    assert d.ctl("jobs")[0] == 0


def check_terminal(d, recording, model):
    where = f"{d.dir}/terminal"
    drawn = on_terminal(d, 24, "detect", f"{d.dir}/eeg", "--model", model, "--output", where).split("\r\033[K")
    assert len(drawn) > 3 and all(len(line) <= 23 for line in drawn[1:-1]), drawn
    for text in (on_terminal(d, 60, "stream", recording, "--model", model, term="dumb"),
                 on_terminal(d, 60, "detect", f"{d.dir}/eeg", "--model", model, "--output", where, term="dumb")):
        assert "\033" not in text and "\r\r" not in text, text
    check_top(d)
    check_drain_asks(d)
    code, out, err = d.ctl("detect", f"{d.dir}/eeg", "--model", "nobody", "--output", where)
    assert code == 3 and not out and err.count("nobody") == 1, (code, out, err)
    with open(recording, "rb") as f:
        edf = bytearray(f.read())
    n = int(edf[252:256])
    edf[256:256 + 16 * n] = b"".join(b"%-16s" % f"X{i}".encode() for i in range(n))  # no electrode that a model knows
    os.mkdir(f"{d.dir}/unknown")
    for name in ("one", "two"):
        with open(f"{d.dir}/unknown/{name}.edf", "wb") as f:
            f.write(edf)
    code, out, err = d.ctl("detect", f"{d.dir}/unknown", "--model", model, "--output", where)
    assert code == 1 and "(the same for 1 more)" in out, (code, out, err)


def check_output(d):
    """What could not be written was not done; a reader that has enough ends it without a word."""
    for args in (["help"], ["keys"], ["jobs", "--json"], ["completion", "bash"], ["dataset", f"{d.dir}/eeg"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            r = subprocess.run([f"{BIN}/brrctl", *args], env=d.env, stdout=full, stderr=subprocess.PIPE, text=True)
        assert r.returncode == 1 and "standard output cannot be written" in r.stderr, (args, r)
    r = subprocess.run(["bash", "-c", f"{BIN}/brrctl metrics --watch --interval 0.1 | head -1; exit ${{PIPESTATUS[0]}}"], env=d.env, capture_output=True,
                       text=True, timeout=PATIENCE)
    assert r.returncode == 128 + 13 and len(r.stdout.splitlines()) == 1 and not r.stderr, r


def check_jobs(d, job):
    listed = d.ctl("jobs")[1].splitlines()
    assert listed[0].split() == ["job", "kind", "state", "device", "steps", "age", "loss", "left", "F1", "FA/24h", "name"] and listed[1].index("train ") == listed[0].index("kind"), listed
    shown = dict(line.split(maxsplit=1) for line in d.ctl("job", job)[1].splitlines()[1:] if " " in line.strip())
    assert shown["state"] == "succeeded" and shown["kind"] == "train" and os.path.isdir(shown["folder"]) and os.path.isfile(shown["checkpoint"]), shown
    assert int(shown["nonfinite_steps"]) == 0
    log = d.ctl("logs", job)[1].splitlines()
    assert log and all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+-]\S+  \S", line) for line in log), log
    assert re.search(r" (\d+ s|\d+ min) ", listed[1]), listed  # its age
    text = d.ctl("watch", job)[1]
    assert f"next: brrctl detect RECORDINGS --model job:{job} --out DIR" in text, text
    code, out, err = d.ctl("jobs", "now")
    assert code == 2 and "'now'" in err and not out


def check_scores(d):
    """A hypothesis that is not there is an error; a file of it that is missing is said; what a seizure is called is the labels' rule."""
    reference, hypothesis = f"{d.dir}/score/reference", f"{d.dir}/score/hypothesis"
    for folder in (reference, hypothesis):
        os.makedirs(folder)
    head = "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n"
    for name, row in (("a", "10\t20\tfnsz"), ("b", "40\t20\tsz")):
        with open(f"{reference}/{name}_events.tsv", "w", encoding="utf-8") as f:
            f.write(f"{head}{row}\tn/a\tall\tn/a\t100\n")
    shutil.copy(f"{reference}/a_events.tsv", f"{hypothesis}/a_events.tsv")
    code, out, err = d.ctl("score", reference, hypothesis, "--json")
    overlap = json.loads(out)["pooled"]["any_overlap"]
    assert code == 0 and "1 of 2" in err and (overlap["tp"], overlap["ref"]) == (1, 2), (out, err)
    for kind, noted in (("chewing", True), ("bckg", False)):  # whoever wrote "chewing" need not have looked for seizures
        os.makedirs(f"{d.dir}/score/{kind}")
        with open(f"{d.dir}/score/{kind}/a_events.tsv", "w", encoding="utf-8") as f:
            f.write(f"{head}10\t20\t{kind}\tn/a\tall\tn/a\t100\n")
        code, _, err = d.ctl("score", f"{d.dir}/score/{kind}", hypothesis)
        assert code == 0 and ("1 of 1 reference with other events alone" in err) == noted, (kind, err)
    os.mkfifo(f"{reference}/fifo_events.tsv")  # nobody waits for it, and a recording is not dropped in silence
    os.mkfifo(f"{hypothesis}/b_events.tsv")
    code, again, err = d.ctl("score", reference, hypothesis, "--json")
    assert (code, again) == (0, out) and f"left out: {reference}/fifo_events.tsv is no file" in err and "1 of 2" in err, (again, err)
    for folder, name in ((reference, "fifo"), (hypothesis, "b")):
        os.unlink(f"{folder}/{name}_events.tsv")
    assert d.ctl("score", reference, f"{d.dir}/score/none")[0] == 3
    code, out, err = d.ctl("score", reference, f"{d.dir}/eeg")
    assert code == 1 and "2 of 2" in err and "any_overlap" in out, (code, err)
    code, out, err = d.ctl("score", f"{reference}/a_events.tsv", f"{SOURCE}/README.md")
    assert code == 1 and "README.md" in err and "any_overlap" in out, (code, err)
    code, _, err = d.ctl("score", reference, f"{reference}/a_events.tsv")
    assert code == 1 and "two folders" in err, err


def check_score_formats(d):
    """Every form of labels that training reads is a reference; the recording or the other file says how long it is."""
    reference, hypothesis = f"{d.dir}/formats/reference", f"{d.dir}/formats/hypothesis"
    for folder in (reference, hypothesis):
        os.makedirs(folder)
    recording = sorted(glob.glob(f"{d.dir}/eeg/**/*_eeg.edf", recursive=True))[0]
    with open(recording, "rb") as f:
        head = f.read(256)
    seconds = int(head[236:244]) * float(head[244:252])
    table = "channel,start_time,stop_time,label,confidence\nTERM,10.0,20.0,seiz,1.0\n"
    texts = {"a_events.tsv": "onset\tduration\teventType\n10\t10\tsz\n",  # no length: that of the hypothesis
             "b.csv_bi": f"# version = csv_v1.0.0\n# duration = {seconds:.4f} secs\n{table}",
             "c.csv_bi": f"# version = csv_v1.0.0\n{table}",  # of a recording
             "d_events.tsv": "onset\tduration\teventType\n10\t10\tsz\n", "notes.csv": "no,labels\n1,2\n"}
    for name, text in texts.items():
        with open(f"{reference}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    for name in ("c.edf", "d_eeg.edf", "unlabelled.edf"):
        shutil.copy(recording, f"{reference}/{name}")
    for name in "abcd":
        with open(f"{hypothesis}/{name}_events.tsv", "w", encoding="utf-8") as f:
            f.write(f"onset\tduration\teventType\trecordingDuration\n12\t5\tsz\t{seconds}\n")
    code, out, err = d.ctl("score", reference, hypothesis, "--json")
    pooled = json.loads(out)["pooled"]["any_overlap"]
    assert code == 0 and (pooled["tp"], pooled["ref"], pooled["fp"]) == (4, 4, 0), (out, err)
    assert "left out: " in err and "unlabelled.edf has no labels" in err and err.count("\n") == 1, err
    code, out, err = d.ctl("score", f"{reference}/c.edf", f"{hypothesis}/c_events.tsv", "--labels", "tusz-csv_bi", "--json")
    assert code == 0 and json.loads(out)["pooled"]["any_overlap"]["tp"] == 1, (out, err)
    code, out, err = d.ctl("score", f"{reference}/d_events.tsv", f"{reference}/a_events.tsv", "--json")  # neither says it: the recording does
    assert code == 0 and json.loads(out)["pooled"]["any_overlap"]["tp"] == 1 and abs(json.loads(out)["hours"] * 3600 - seconds) < 1, (out, err)
    assert "after the end" not in err, err
    with open(f"{reference}/late_events.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\n10\t10\tsz\n688\t12\tsz\n")
    code, out, err = d.ctl("score", f"{reference}/late_events.tsv", f"{hypothesis}/a_events.tsv")
    assert code == 0 and f"late_events.tsv: 1 of 2 reference events ends after the end of the recording, at 700.00 s at the latest (the recording lasts {seconds:.2f} s)" in err, err
    code, out, err = d.ctl("score", f"{reference}/a_events.tsv", f"{reference}/a_events.tsv")
    assert code == 1 and "put the recording beside the reference" in err, (out, err)


def check_locked_out(d):
    """Who may not use the socket is told so, and not to start a daemon."""
    root = os.getuid() == 0
    try:
        if not root:
            os.chmod(d.socket, 0)
        r = subprocess.run([f"{BIN}/brrctl", "jobs"], env=d.env, capture_output=True, text=True, **({"user": 65534} if root else {}))
    except PermissionError:
        print("nobody may not run the program here: not tried")
        return
    finally:
        os.chmod(d.socket, 0o600)
    assert r.returncode == 1 and "may use" in r.stderr and d.socket in r.stderr, r
    code, _, err = d.ctl("jobs", "--endpoint", "http://127.0.0.1:80")
    assert code == 2 and "expected unix:" in err


def check_loads(d, job, file):
    """A name goes back to the weights before, and says who loaded what."""
    before = lines(d, "models", "first")[0]
    load = lambda *words: until(lambda: d.ctl("load", "first", *words)[0] == 0, d.read_log)  # not before an older file is gone
    load("line_length")
    loads = lines(d, "models", "first")[0]["loads"]
    assert [load["ref"] for load in loads] == ["line_length", f"job:{job}"], loads
    assert loads[1]["sha256"] == before["sha256"] and loads[0]["time_ms"] >= loads[1]["time_ms"] > 1.7e12 and loads[0]["principal"] == f"uid:{os.getuid()}", loads
    assert "was replaced" not in d.ctl("load", "first", "line_length")[2], "the same weights again"
    code, _, err = d.ctl("load", "first", "--previous")
    assert code == 0 and f"the model first was replaced: it was line_length (SHA-256 {loads[0]['sha256'][:12]});" in err, err
    back = lines(d, "models", "first")[0]
    assert back["sha256"] == before["sha256"] and back["ref"] == f"job:{job}" and len(back["loads"]) == 3, back
    text = d.ctl("models", "first")[1]
    assert text.count(f"{before['sha256']}  job:") == 2 and f"job:{job}  by uid:{os.getuid()}" in text, text
    code, _, err = d.ctl("load", "second", "--previous")
    assert code == 3 and "other weights" in err, err
    code, _, err = d.ctl("load", "first", "line\nlength")
    assert code != 0 and "has line ends" in err, err
    for after in ("", "null", "~"):
        code, _, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--after", after)
        assert code == 2 and f"--after: '{after}' is not the id of a job" in err, err
    for words in (["load", "first"], ["load", "first", file, "--previous"], ["load", "", "line_length"]):
        assert d.ctl(*words)[0] == 2, words


def check_models(d, model):
    job = lines(d, "jobs")[0]["job"]
    assert lines(d, "load", "first", f"job:{job}")[0]["name"] == "first"
    file = os.path.relpath(model)
    described = lines(d, "load", "second", file)[0]
    assert described["montage"] == "referential-19" and len(described["channels"]) == 19 and described["window_s"] == 16
    assert {m["name"] for m in lines(d, "models")} == {"first", "second"}
    assert lines(d, "models", "second")[0]["sha256"] == hashlib.sha256(open(model, "rb").read()).hexdigest()
    check_loads(d, job, file)
    lines(d, "unload", "first")
    assert [m["name"] for m in lines(d, "models")] == ["second"]
    assert d.ctl("unload", "first")[0] == 3
    code, out, err = d.ctl("models", "demo")
    assert code == 0 and "state       not loaded" in out and "sha256" not in out and "device" not in out, out
    for words in (["load", "x", "demoo"], ["stream", f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", "--model", "demoo"]):
        assert "; did you mean demo?" in d.ctl(*words)[2], words
    assert "did you mean" not in d.ctl("models", "best")[2]
    assert "state" not in d.ctl("models", "second")[1] and "cpu, " in d.ctl("models", "second")[1]
    code, out, err = d.ctl("load", "line_length", file)
    assert code == 0 and "line_length is also the name of a built-in model" in err and "`brrctl unload line_length`" in err, err
    assert "built-in" not in d.ctl("load", "second", file)[2] + d.ctl("unload", "line_length")[2] + d.ctl("load", "demo", "demo")[2]
    lines(d, "unload", "demo")
    return job


def check_checkpoints(d, job):
    listed = lines(d, "checkpoints", job)
    assert listed and all(c["job"] == job for c in listed) and any(c["last"] for c in listed)
    ref, copy = f"job:{job}", f"{d.dir}/copy.safetensors"
    got = lines(d, "checkpoint", "get", ref, "--out", copy)[0]
    with open(copy, "rb") as f:
        assert hashlib.sha256(f.read()).hexdigest() == got["sha256"]
    assert lines(d, "checkpoint", "verify", ref)[0]["valid"] is True
    code, _, err = d.ctl("checkpoint", "put", f"{SOURCE}/README.md")
    assert code == 1 and "README.md" in err and "uploads" not in err, err
    code, _, err = d.ctl("geodesic", "metric", ref, "--csv", f"{d.dir}/none.csv")
    assert code == 1 and f"{ref} is no geodesic model" in err and "/tmp/" not in err.replace(d.dir, ""), err
    code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=file://{d.dir}/eeg", "--set", "training.batch_size=4", "--id-file", f"{d.dir}/none/id")
    queued = lines(d, "jobs")[0]["job"]
    assert code == 3 and not out and f"{queued} was queued nevertheless" in err and "none/id" in err, (code, out, err)
    d.ctl("cancel", queued)  # it may have ended by itself
    assert lines(d, "checkpoint", "put", copy, "--name", "upload")[0]["bytes"] == os.path.getsize(copy)
    assert lines(d, "checkpoint", "pin", listed[0]["ref"])[0]["pinned"] is True
    assert lines(d, "checkpoint", "unpin", listed[0]["ref"])[0]["pinned"] is False
    assert lines(d, "checkpoint", "promote", "upload:upload", "third")[0]["sha256"] == got["sha256"]
    lines(d, "unload", "third")
    lines(d, "checkpoint", "delete", "upload:upload")
    code, _, err = d.ctl("checkpoint", "get", "upload:upload", "--out", f"{d.dir}/none.safetensors")
    assert code == 3 and not os.path.exists(f"{d.dir}/none.safetensors"), err
    code, _, err = d.ctl("checkpoint", "delete", ref)
    assert code == 1 and job in err


def check_odd_labels(d, recording):
    """Cut recordings, seizures outside of them and misspelt ones are listed; a recording without labels counts nowhere."""
    folder = f"{d.dir}/outside"
    os.makedirs(folder)
    with open(recording, "rb") as f:
        data = f.read()
    for name in ("a", "b"):
        with open(f"{folder}/{name}_eeg.edf", "wb") as f:
            f.write(data[:300000])
    with open(f"{folder}/c_eeg.edf", "wb") as f:  # a bipolar recording without labels
        f.write(data[:256] + b"".join(p.ljust(16) for p in BIPOLAR) + data[256 + 16 * len(BIPOLAR):])
    with open(f"{folder}/a_events.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\n5000\t10\tsz\n-5\t3\tsz\n1\t2\tsiezure\n1\t2\tbckg\n2\t1\tsz\n")
    found = lines(d, "dataset", folder, code=1)[0]
    assert found["usable"] == 1 and found["inverse_montage"] == 0 and found["other_event_types"] == {"siezure": 1}, found
    assert found["splits"]["all"]["seizures"] == 1 and found["repaired"] == 1 and len(found["problems"]) == 4, found
    assert [n[:27] for n in found["notes"]] == ["a_eeg.edf: file ends early:", "1 of 1 recording names no p"], found
    for text in ("a_events.tsv:2: seizure from 5000 s to 5010 s, the recording ends at", "a_events.tsv:3: seizure from -5 s"):
        assert sum(p.startswith(text) for p in found["problems"]) == 1, (text, found)
    assert any(p.startswith("c_eeg.edf (no labels") for p in found["problems"]), found
    code, out, err = d.ctl("dataset", folder)
    assert code == 1 and "1 direct" in out and '"siezure" (1)' in out and "file ends early" in out, (out, err)


def check_cut(d, recording, model):
    """The header's corrections are said, by stream and by detect."""
    cut = f"{d.dir}/cut_eeg.edf"
    with open(recording, "rb") as f, open(cut, "wb") as out:
        out.write(f.read()[:300000])
    code, out, err = d.ctl("stream", cut, "--model", model, "--json")
    assert code == 0 and "cut_eeg.edf: file ends early" in err and "file ends early" in json.loads(out.splitlines()[-1])["note"], (out, err)
    code, out, err = d.ctl("detect", cut, "--model", model, "--out", f"{d.dir}/cut", "--json")
    assert code == 0 and "cut_eeg.edf: file ends early" in err and "file ends early" in json.loads(out)["note"], (out, err)
    with open(cut, "rb") as f:
        r = subprocess.run([f"{BIN}/brrctl", "stream", "-", "--replay", "--model", model, "--json"], stdin=f, env=d.env, capture_output=True, text=True)
    assert r.returncode == 0 and not r.stderr and json.loads(r.stdout.splitlines()[-1])["note"] == "", r
    for path, ended in ((cut, r"ended +input; [1-9][\d,]* bytes of an incomplete record ignored"), (recording, r"ended +input")):
        with open(path, "rb") as f:
            out = subprocess.run([f"{BIN}/brrctl", "stream", "-", "--replay", "--model", model, "--suppression", f"{d.dir}/s.tsv"], stdin=f, env=d.env, capture_output=True, text=True).stdout
        assert re.search(f"^{ended}$", out, re.M) and f"per second {d.dir}/s.tsv" in out, out


def check_offline(d, recording):
    out = f"{d.dir}/w.safetensors"
    said = lines(d, "windows", recording, "--window", "16", "--hop", "8", "--out", out)[0]
    with open(out, "rb") as f:
        data = f.read()
    header = json.loads(data[8:8 + struct.unpack_from("<Q", data)[0]])
    assert header["x"]["shape"] == [said["windows"], 19, 4096] and header["x"]["dtype"] == "F32"
    assert header["start"]["dtype"] == header["valid"]["dtype"] == "I64" and header["start"]["shape"] == [said["windows"]]
    base = 8 + struct.unpack_from("<Q", data)[0]
    starts = struct.unpack_from(f"<{said['windows']}q", data, base + header["start"]["data_offsets"][0])
    assert list(starts) == [2048 * i for i in range(said["windows"])]
    part = lines(d, "windows", recording, "--window", "16", "--hop", "8", "--first", "2", "--count", "3", "--out", out)[0]
    assert part["written"] == 3
    code, _, err = d.ctl("windows", recording, "--out", f"{d.dir}/w.npy")
    assert code == 2 and "expected FILE.safetensors" in err and not os.path.exists(f"{d.dir}/w.npy"), (code, err)

    found = lines(d, "dataset", f"{d.dir}/eeg")[0]
    assert found["files"] == found["usable"] == 2 and found["problems"] == [] and found["label_sources"] == {"bids-tsv": 2}
    everything = found["splits"]["all"]
    assert everything["patients"] == 2 and everything["seizures"] == 2 and abs(everything["hours"] - 0.08) < 1e-9
    assert everything["windows"]["partial"] > 0
    os.makedirs(f"{d.dir}/folders/PN01")
    for run in (1, 2):
        for end in ("eeg.edf", "events.tsv"):
            shutil.copy(recording.replace("eeg.edf", end), f"{d.dir}/folders/PN01/PN01-{run}_{end}")
    for rule, patients in ((), 2), (("--patient", "folder"), 1), (("--patient", "prefix"), 1):
        assert lines(d, "dataset", f"{d.dir}/folders", *rule)[0]["splits"]["all"]["patients"] == patients, rule
    shutil.copytree(f"{d.dir}/eeg/sub-01", f"{d.dir}/odd/sub-01")
    open(f"{d.dir}/odd/broken.edf", "wb").write(b"nothing")
    for name in os.listdir(f"{d.dir}/odd/sub-01"):
        if name.endswith(".tsv"):
            os.remove(f"{d.dir}/odd/sub-01/{name}")
    problems = lines(d, "dataset", f"{d.dir}/odd", code=1)[0]["problems"]
    assert len(problems) == 2 and any("broken.edf" in p for p in problems) and any("label" in p for p in problems), problems
    check_odd_labels(d, recording)
    counted = lines(d, "dataset", f"{d.dir}/eeg", "--window", "16", "--hop", "8")[0]["splits"]["all"]["windows"]
    need = lines(d, "validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=file://{d.dir}/eeg", "--set", "data.window_s=16", "--set",
                 "data.hop_s=8", "--set", "data.validation_fraction=0", "--set", "model.encoder_channels=[8,8,8,16]", "--set", "model.headdim=8", "--set",
                 "training.batch_size=2", "--set", "training.micro_batch_size=1")[0]
    assert need["kind"] == "train" and need["recordings"] == 2 and need["memory_bytes"] > 0 and need["parameters"] > 0
    assert need["windows_per_epoch"] <= sum(counted.values())
    assert need["fits"] is True
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=file://{d.dir}/eeg", "--set",
                           "data.validation_fraction=0", "--set", "training.batch_size=4096", "--set", "training.micro_batch_size=1")
    assert code == 1 and "fewer than training.batch_size 4096" in err and "[EPOCH_TOO_SMALL]" in err and not out, (out, err)  # a job of 0 steps
    code, _, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", "data.hopp_s=1")
    assert code == 1 and "data.hop_s" in err and "[" not in err, err  # a status is no reason


def check_sight(d):
    top = lines(d, "top", "--once")[0]
    assert top["devices"][0]["name"] == "cpu" and top["sessions"] == 0 and top["uptime_s"] > 0 and top["samples"] > 0
    code, out, err = d.ctl("top", "--once")
    assert code == 0 and "device   cpu" in out and "streams  0 open" in out
    names = {m["name"] for m in lines(d, "metrics", "brrd_stream")}
    assert "brrd_stream_sessions" in names and all(n.startswith("brrd_stream") for n in names)
    watch = subprocess.Popen([f"{BIN}/brrctl", "top", "--json", "--interval", "0.2"], env=d.env, stdout=subprocess.PIPE, text=True)
    seen = [json.loads(watch.stdout.readline()) for _ in range(3)]
    watch.kill()
    watch.wait()
    assert seen[0]["windows_per_s"] is None and seen[2]["windows_per_s"] == 0 and seen[2]["time_ms"] > seen[1]["time_ms"]
    checks = lines(d, "doctor")
    assert checks and all(c["pass"] for c in checks), checks
    assert any(c["check"] == "grpc" and c["detail"][0].isdigit() for c in checks), checks
    assert "PASS" in d.ctl("doctor")[1]
    assert lines(d, "devices")[0]["name"] == "cpu" and lines(d, "version")[0]["version"]


def recordings_check(d, code):
    return next(c for c in lines(d, "doctor", code=code) if c["check"] == "paths.data")


def check_picture(d):
    """README's picture shows what its command finds."""
    def titles(path):
        with open(path, encoding="utf-8") as f:
            return re.findall("<title>([^<]*)</title>", f.read())
    recording = f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf"
    code, _, err = d.ctl("stream", recording, "--model", "ward", "--alarms", "--plot", f"{d.dir}/picture.svg", "--output", f"{d.dir}/picture.tsv")
    assert code == 0, err
    assert titles(f"{d.dir}/picture.svg") == titles(f"{SOURCE}/docs/pictures/recording.svg") and titles(f"{d.dir}/picture.svg"), titles(f"{d.dir}/picture.svg")


def check_doctor_without_recordings(d):
    """A folder of recordings that is not there is no fault, since they may all lie in stores; something else in its place is."""
    data = f"{d.dir}/data"
    os.rename(data, f"{data}.away")
    absent = recordings_check(d, 0)
    assert absent["pass"] and "does not exist" in absent["detail"], absent
    with open(data, "w", encoding="ascii"):
        pass
    wrong = recordings_check(d, 1)
    assert not wrong["pass"] and "can read" in wrong["detail"] and wrong["fix"], wrong
    assert d.ctl("doctor")[0] == 1
    os.remove(data)
    os.rename(f"{data}.away", data)


def check_paths(tmp):
    """Relative paths of a job file count from the file, those of --set from the working directory."""
    make_corpus(f"{tmp}/jobs/corpus", seed=3, patients=1, hours=0.04)
    with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
        text = f.read().replace("source: train", "source: file://corpus")
    with open(f"{tmp}/jobs/job.yaml", "w", encoding="utf-8") as f:
        f.write(text)


def check_methods():
    """Every method that a command names is one of a service; brrctl would end where it calls another."""
    methods = set()
    for path in glob.glob(f"{SOURCE}/proto/brr/v1/*.proto"):
        text = open(path, encoding="utf-8").read()
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.M | re.S):
            methods |= {f"/brr.v1.{service}/{name}" for name in re.findall(r"rpc (\w+)\(", body)}
    named = {word for path in glob.glob(f"{SOURCE}/client/brrctl/**/*.c", recursive=True)
             for word in re.findall(r'"(/brr\.v1\.\w+/\w+)"', open(path, encoding="utf-8").read())}
    assert len(named) > 30 and named <= methods, named - methods


def main():
    check_methods()
    with streaming_daemon() as (d, recording, model):
        check_usage(d)
        job = check_models(d, model)
        check_checkpoints(d, job)
        check_offline(d, recording)
        check_sight(d)
        check_doctor_without_recordings(d)
        check_picture(d)
        check_jobs(d, job)
        check_terminal(d, recording, model)
        check_cut(d, recording, model)
        check_output(d)
        check_locked_out(d)
        check_scores(d)
        check_score_formats(d)
        check_paths(d.dir)
        small = ["--set", "data.validation_fraction=0", "--set", "model.encoder_channels=[8,8,8,16]", "--set", "model.headdim=8", "--set", "training.batch_size=2", "--set", "training.micro_batch_size=1"]
        assert lines(d, "validate", f"{d.dir}/jobs/job.yaml", *small)[0]["recordings"] == 1
        cwd = os.getcwd()
        os.chdir(f"{d.dir}/jobs")
        assert lines(d, "validate", f"{SOURCE}/configs/tiny.yaml", *small, "--set", "data.source=file://corpus")[0]["recordings"] == 1
        os.chdir(cwd)
        code, out, err = d.ctl("drain")
        assert code == 0, err
        assert d.process.wait(timeout=PATIENCE) == 0
        d.start()
    return 0


if __name__ == "__main__":
    sys.exit(main())
