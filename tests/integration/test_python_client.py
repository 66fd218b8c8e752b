#!/usr/bin/env python3
"""client/python without a package of its own: the typed messages of the build, the events of an mne.io.Raw, a live stream that is followed, and
windows by Braindecode's conventions; the notebook of examples/."""
import gc
import glob
import os
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE, Daemon, make_corpus, temporary, trained_network

FOLDER = f"{SOURCE}/client/python"
MODEL = "line_length"


def environment(d):
    return {**d.env, "BRR_PYTHON": f"{os.environ['BRR_BUILD_DIR']}/python", "PYTHONDONTWRITEBYTECODE": "1"}


def check_stubs():
    for name in ("stream", "sessions", "common", "jobs"):
        with open(f"{os.environ['BRR_BUILD_DIR']}/python/brr/v1/{name}_pb2.pyi", encoding="utf-8") as f:
            text = f.read()
        assert "_message.Message" in text and ": float" in text + ": float", name


def check_events(d, recording, model):
    r = subprocess.run([sys.executable, f"{FOLDER}/mne_events.py", recording, model, f"{d.dir}/found_annotations.txt"], env=environment(d),
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stderr
    rows = [line.split("\t") for line in r.stdout.splitlines()]
    code, _, err = d.ctl("stream", recording, "--model", model, "--out", f"{d.dir}/want.tsv")
    assert code == 0, err
    with open(f"{d.dir}/want.tsv", encoding="utf-8") as f:
        want = [line.split("\t") for line in f.read().splitlines()[1:] if "\tsz\t" in line]
    assert [(f"{float(a):.2f}", c) for a, b, c in rows] == [(w[0], w[2]) for w in want], (rows, want)
    assert rows, "the recording should have events"
    return len(rows)


def check_follow(d, recording):
    stream = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", MODEL, "--on", "0.06", "--off", "0.03", "--realtime", "30", "--alarms",
                               "--alarm-hop", "1"], env=d.env, stdout=subprocess.PIPE, text=True)
    deadline = time.time() + PATIENCE
    while not d.ctl("sessions", "--json")[1] and time.time() < deadline:
        time.sleep(0.05)
    r = subprocess.run([sys.executable, f"{FOLDER}/follow.py"], env=environment(d), capture_output=True, text=True, timeout=PATIENCE)
    told, _ = stream.communicate(timeout=PATIENCE)
    said = [line for line in r.stdout.splitlines() if "\talarm on\t" in line]
    assert r.returncode == 0 and said and len(said) <= told.count("alarm on"), (r.stdout, r.stderr, told)


def check_windows(d, recording):
    path = f"{d.dir}/w.safetensors"
    code, _, err = d.ctl("windows", recording, "--window", "16", "--hop", "8", "--out", path)
    assert code == 0, err
    sys.path.insert(0, FOLDER)
    from windows import load_windows
    x, rows = load_windows(path)
    assert x.shape == (len(rows), 19, 4096) and x.dtype.name == "float32" and abs(float(x[0].mean())) < 1e-3
    assert [r["i_start_in_trial"] for r in rows[:3]] == [0, 2048, 4096] and rows[0]["i_stop_in_trial"] == 4096 and rows[0]["n_valid"] == 4096


def check_connection(d, model, found, recording):
    """The daemon from Python: the results of this process; chunks, a gap, alarms; its messages as exceptions."""
    import brr
    import numpy
    uv, rate, labels = recording
    with brr.connect(f"unix:{d.socket}") as daemon:
        remote = daemon.detector(model)
        again = remote.detect(uv, rate, labels)
        assert numpy.array_equal(again.probabilities, found.probabilities) and again.first == found.first == 0, model
        assert [e[:2] for e in again.events] == [e[:2] for e in found.events], (again.events, found.events)
        assert all(abs(a.confidence - b.confidence) < 1e-6 for a, b in zip(again.events, found.events)), (again.events, found.events)
        if model != MODEL:
            return
        half, far = uv.shape[1] // 2, int(10 * rate)
        sides = []
        for detector in (remote, brr.Detector(model)):
            stream, parts = detector.stream(rate, labels, on=0.06, off=0.03, alarm_hop_s=1), []
            for at in range(0, half, 999):
                parts.append(stream.push(uv[:, at:min(at + 999, half)]))
            stream.gap(far)
            parts += [stream.push(uv[:, half:]), stream.finish()]
            sides.append((numpy.concatenate([p.probabilities for p in parts]), [e[:2] for p in parts for e in p.events],
                          [(a.time, a.on) for p in parts for a in p.alarms]))
        (a, *more), (b, *others) = sides
        assert numpy.array_equal(a, b, equal_nan=True) and numpy.isnan(a).any() and more == others and more[1], (a.shape, b.shape, more, others)
        for refused, words, code in ((lambda: daemon.detector("nothing").stream(rate, labels), "nothing", -5),
                                     (lambda: remote.stream(rate, labels[:3]), "missing", -9),
                                     (lambda: brr.connect("nowhere"), "is not an endpoint", -3),
                                     (lambda: brr.connect("unix:/proc/nonexistent").call("/brr.v1.Jobs/List"), "/proc/nonexistent", -14)):
            try:
                refused()
                raise AssertionError(f"not refused: {words}")
            except brr.Error as e:
                assert words in str(e) and e.code == code, (e.code, e)
        bed = remote.stream(rate, labels, on=0.06, off=0.03, live=True, name="bed 7")  # its hooks hear it unless it says otherwise
        assert bed.push(uv).alarms + bed.finish().alarms and '"bed 7"' in d.ctl("journal", "--kind", "alarm_on", "--json")[1], "a live source is told"
        late = remote.stream(rate, labels)
    for closed in (lambda: late.push(uv), late.finish, lambda: late.gap(1), lambda: remote.stream(rate, labels), lambda: daemon.call("/brr.v1.Jobs/List")):
        try:
            closed()
            raise AssertionError("a closed connection was used")
        except ValueError as e:
            assert "closed" in str(e), e
    os.environ["BRR_ENDPOINT"] = f"unix:{d.socket}"
    assert brr.connect().endpoint == f"unix:{d.socket}" and isinstance(brr.connect().call("/brr.v1.Jobs/List"), bytes)


def check_detector(d, recording, model):
    """In this process: the probabilities and events of the daemon; with a model that is fast also in chunks, with a gap, and what is refused."""
    import numpy
    sys.path[:0] = [FOLDER, f"{SOURCE}/client/examples"]
    import brr
    from stream import read_edf
    labels, rate, rows = read_edf(recording)
    uv = numpy.array(rows, dtype=numpy.float32)
    code, _, err = d.ctl("stream", recording, "--model", model, "--out", f"{d.dir}/want.tsv", "--probs", f"{d.dir}/want.npy")
    assert code == 0, err
    want = numpy.load(f"{d.dir}/want.npy")
    with open(f"{d.dir}/want.tsv", encoding="utf-8") as f:
        table = [line.split("\t") for line in f.read().splitlines()]
    events = [row[:2] for row in table if row[2] == "sz"]
    detector = brr.Detector(model)
    found = detector.detect(uv, rate, labels)
    found.save(f"{d.dir}/saved.tsv", uv.shape[1] / rate)
    with open(f"{d.dir}/saved.tsv", encoding="utf-8") as f:
        saved = [line.split("\t") for line in f.read().splitlines()]
    assert saved == table[:1] + [row[:5] + ["n/a"] + row[6:] for row in table[1:]], (saved, table)  # an array has no date
    read = brr.read(recording)
    assert numpy.array_equal(read.data, uv) and read.labels == labels and read.rate == rate and read.seizures().tolist()[0][2].startswith("sz")
    again = detector.detect(read)
    assert numpy.array_equal(again.probabilities, found.probabilities) and again.events == found.events
    assert list(found.table().annotations().onset) == [e.onset for e in found.events]
    assert numpy.array_equal(found.probabilities, want), f"{model}: {numpy.abs(found.probabilities - want).max()}"
    assert [(f"{e.onset:.2f}", f"{e.duration:.2f}") for e in found.events] == [(f"{float(a):.2f}", f"{float(b):.2f}") for a, b in events], (found, events)
    check_connection(d, model, found, (uv, rate, labels))
    if model != MODEL:
        return len(found.events)
    stream, parts = detector.stream(rate, labels), []
    for at in range(0, uv.shape[1], 999):
        parts.append(stream.push(uv[:, at:at + 999]).probabilities)
    parts.append(stream.finish().probabilities)
    assert numpy.array_equal(numpy.concatenate(parts), want)
    half, far = uv.shape[1] // 2, int(10 * rate)
    stream = detector.stream(rate, labels)
    stream.push(uv[:, :half])
    stream.gap(far)
    stream.push(uv[:, half:])
    assert stream.finish().first >= 0
    gapped = brr.read(recording)  # the same, by the gap of a file
    gapped._starts, gapped.data = [(0, 0.0), (half, (half + far) / rate)], uv
    apart = detector.stream(rate, labels)
    apart_parts = [apart.push(uv[:, :half]), apart.gap(far), apart.push(uv[:, half:]), apart.finish()]
    assert numpy.array_equal(detector.detect(gapped).probabilities, numpy.concatenate([p.probabilities for p in apart_parts if p]), equal_nan=True)
    owner = [detector, stream, brr.Detector(model)]  # a cycle, which is collected in whatever order
    owner += [owner, owner[2].stream(rate, labels)]
    del owner
    gc.collect()
    for refused, words in ((lambda: stream.push(uv[:, :9]), ""), (lambda: brr.Detector("nothing"), "neither a model file"),
                           (lambda: detector.stream(rate, labels[:3]), "missing"), (lambda: detector.stream(-1, labels), "rate")):
        try:
            refused()
            raise AssertionError(f"not refused: {words}")
        except brr.Error as e:
            assert words in str(e) and e.code < 0, e
    try:
        detector.detect(uv)
        raise AssertionError("an array without its rate was taken")
    except TypeError as e:
        assert "rate in Hz" in str(e), e
    env = {**{k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}, "OMP_DISPLAY_ENV": "true", "PYTHONPATH": FOLDER}
    program = f"import brr, os; brr.Detector('{model}'); assert 'OMP_WAIT_POLICY' not in os.environ"
    r = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0 and "OMP_WAIT_POLICY = 'PASSIVE'" in r.stderr, r.stderr
    return len(found.events)


def check_notebook(d):
    """examples/notebook.py as it stands, with one step of training: its events are those of this process, its scores say so, its pictures are there."""
    r = subprocess.run([sys.executable, f"{SOURCE}/examples/notebook.py"], capture_output=True, text=True, timeout=PATIENCE,
                       env={**environment(d), "BRRCTL": f"{BIN}/brrctl", "STEPS": "1", "OUT": f"{d.dir}/notebook", "MPLBACKEND": "Agg"})
    assert r.returncode == 0, r.stdout + r.stderr
    lines = r.stdout.splitlines()
    assert lines[0] == "19 channels at 256 Hz, 240 s, 1 labelled seizure" and "('onset', 'duration', 'eventType', 'confidence')" in lines[1], lines
    assert sum(": sensitivity 1" in line for line in lines) == 2, lines
    for picture in ("traces", "probabilities"):
        with open(f"{d.dir}/notebook/{picture}.png", "rb") as f:
            assert len(f.read()) > 10000, picture


def main():
    try:
        import mne  # noqa: F401
    except ImportError:
        print("skipped: package: there is no MNE; ./dev deps installs python3-mne")
        sys.exit(77)
    check_stubs()
    with temporary() as scratch:
        d = Daemon(scratch).start()
        make_corpus(f"{scratch}/data", 11, patients=2, hours=0.1)
        recording = glob.glob(f"{scratch}/data/sub-02/*_eeg.edf")[0]
        found = check_events(d, recording, "demo")
        print(f"{found} events in MNE, as of brrctl")
        for model in (trained_network(f"{scratch}/network"), "ward", MODEL):
            print(f"{model}: {check_detector(d, recording, model)} events in this process, with the bits of the daemon")
        check_follow(d, recording)
        check_windows(d, recording)
        check_notebook(d)
        assert d.stop() == 0
    print("ok")


if __name__ == "__main__":
    main()
