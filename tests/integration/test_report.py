#!/usr/bin/env python3
"""A report of detected events and of jobs as one HTML file, the comparison of two trainings, their curves as CSV, pictures as PNG and
PDF, and the call that sends files of a job."""
import base64
import csv
import glob
import html.parser
import io
import json
import os
import re
import struct
import subprocess
import sys

from daemon import BIN, MINI, Daemon, make_corpus, temporary

# Elements that need no end tag.
VOID = {"meta", "br", "img"}


class Page(html.parser.HTMLParser):
    """Checks that elements nest and that nothing comes from elsewhere; counts figures, texts and links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.classes, self.text = [], set(), set(), [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert values.get("src", "data:image/").startswith("data:image/") and tag not in ("script", "link", "iframe"), (tag, attrs)
        self.ids.add(values.get("id"))
        self.classes += (values.get("class") or "").split()
        if values.get("href"):
            assert values["href"].startswith("#"), values
            self.links.add(values["href"][1:])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def picture(path):
    """The SVG of the job, which stands in the report as an image."""
    (data,) = re.findall(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]*)">', read(path))
    return base64.b64decode(data).decode()


def report(d, what, name, *words):
    out = f"{d.dir}/{name}.html"
    code, text, err = d.ctl("report", what, "--output", out, "--json", *words)
    assert code == 0, err
    return json.loads(text), Page(read(out)), read(out)


def check_folder(d):
    """Every event has its page with clock and both sides; without recordings there are scores of nothing, and the report says so."""
    found = f"{d.dir}/found"
    code, _, err = d.ctl("detect", f"{d.dir}/eeg", "--model", "line_length", "--output", found, "--on", "0.1", "--off", "0.05", "--alarm-hop", "1")
    assert code == 0, err + d.read_log()[-3000:]
    events = sum(line.split("\t")[2] == "sz" for path in glob.glob(f"{found}/**/*_events.tsv", recursive=True) for line in read(path).splitlines())
    result, page, text = report(d, found, "whole", "--eeg", f"{d.dir}/eeg")
    assert events and result["recordings"] == 3 and result["pages"] >= events, (result, events)
    assert page.links <= page.ids and page.classes.count("eeg") == result["pages"], (page.links, page.ids)
    assert {"left", "right", "middle", "found"} <= set(page.classes) and ">08:0" in text and "Fp1-F7" in text and "negative up" in text
    assert "sensitivity" in text and "SzCORE" in text and "share of the seizures that were found" in text

    few, page, _ = report(d, found, "few", "--eeg", f"{d.dir}/eeg", "--most", "1", "--montage", "referential-19", "--seconds", "10")
    assert few["pages"] == 1 and "Fz" in page.text and "Fp1-F7" not in page.text, few
    os.makedirs(f"{d.dir}/late")
    stem = sorted(glob.glob(f"{d.dir}/eeg/**/*_eeg.edf", recursive=True))[0].split("/")[-1].replace("_eeg.edf", "")
    with open(f"{d.dir}/late/{stem}_events.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\trecordingDuration\n10\t10\tsz\t900\n688\t12\tsz\t900\n")
    code, _, err = d.ctl("report", found, "--eeg", f"{d.dir}/eeg", "--reference", f"{d.dir}/late", "--output", f"{d.dir}/late.html")
    assert code == 0 and "1 of 2 reference events ends after the end of the recording, at 700.00 s" in err and "the reference's 900.00 s)" in err, err
    for folder, rows in (("pieces", ((100, 20), (160, 30))), ("long", ((90, 120),))):
        os.makedirs(f"{d.dir}/{folder}")
        with open(f"{d.dir}/{folder}/{stem}_events.tsv", "w", encoding="utf-8") as f:
            f.write("onset\tduration\teventType\trecordingDuration\n" + "".join(f"{at}\t{lasts}\tsz\t700\n" for at, lasts in rows))
    _, page, text = report(d, f"{d.dir}/pieces", "pieces", "--reference", f"{d.dir}/long")
    assert page.classes.count("found") == 2 and "+10.0 s" in text and "+70.0 s" not in text, text  # the second piece has no onset
    bare, _, text = report(d, found, "bare")
    assert bare["pages"] == 0 and "are not at hand here" in text and "nothing is known of sensitivity" in text, bare
    os.makedirs(f"{d.dir}/empty")
    for words, why in (((), "name it with --eeg"), (("--eeg", f"{d.dir}/empty"), "has none of the recordings, such as"), (("--eeg", f"{d.dir}/eeg", "--most", "0"), "--most is 0")):
        code, out, err = d.ctl("report", found, "--output", f"{d.dir}/why.htm", *words)
        assert code == 0 and "0 pages of EEG (" in out and why in out, (out, err)
    for words, why in ((("--output", f"{d.dir}/x.pdf"), "expected a FILE.html"), (("--montage", "foo"), "expected referential-19")):
        code, out, err = d.ctl("report", found, *words)
        assert code == 2 and not out and why in err and not os.path.exists(f"{d.dir}/x.pdf"), (code, out, err)
    assert d.ctl("report", f"{d.dir}/eeg/none")[0] == 3 and d.ctl("report", found, "--eeg", f"{d.dir}/none")[0] == 3
    code, _, err = d.ctl("report", f"{d.dir}/empty")
    assert code == 3 and "no *_events.tsv" in err, err


def check_base_names(d):
    """Recordings of two patients have one base name: they are paired by their paths, and never by the name alone."""
    table = "onset\tduration\teventType\trecordingDuration\n10\t10\tsz\t900\n"
    for name in ("found/p1/x", "found/p2/x", "truth/p1/x", "truth/p2/x", "one/x"):
        os.makedirs(os.path.dirname(f"{d.dir}/same/{name}"), exist_ok=True)
        with open(f"{d.dir}/same/{name}_events.tsv", "w", encoding="utf-8") as f:
            f.write(table.replace("10\t10", "500\t10") if name.endswith("p2/x") else table)
    words = ("report", f"{d.dir}/same/found", "--output", f"{d.dir}/same.html", "--json")
    code, text, err = d.ctl(*words, "--reference", f"{d.dir}/same/truth")
    assert code == 0 and json.loads(text)["recordings"] == 2, err
    code, _, err = d.ctl(*words, "--reference", f"{d.dir}/same/one")
    assert code != 0 and "p1/x" in err and "p2/x" in err, err


def check_pictures(d, job):
    """PNG and PDF by name and from a job's folder; two pixels for one; what is no SVG is an error."""
    for ending, start in (("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-")):
        out = f"{d.dir}/training.{ending}"
        code, _, err = d.ctl("picture", f"job:{job}/training.svg", "--output", out)
        if "librsvg2-2" in err:
            print("skipped: package: librsvg2-2 is not installed")
            return 77
        assert code == 0, err
        with open(out, "rb") as f:
            data = f.read()
        assert data.startswith(start) and len(data) > 5000
    with open(f"{d.dir}/training.png", "rb") as f:
        width, height = struct.unpack(">II", f.read(24)[16:])
    assert width == 2 * 932 and height > 500, (width, height)
    with open(f"{d.dir}/not.svg", "w", encoding="utf-8") as f:
        f.write("<html>")
    code, _, err = d.ctl("picture", f"{d.dir}/not.svg", "--output", f"{d.dir}/not.png")
    assert code == 1 and "cannot be drawn" in err and not os.path.exists(f"{d.dir}/not.png"), err
    assert d.ctl("picture", f"{d.dir}/not.svg", "--output", "x.gif")[0] == 2
    assert d.ctl("picture", f"job:{job}/none.svg", "--output", f"{d.dir}/x.png")[0] == 3
    plot = f"{d.dir}/recording.png"
    code, _, err = d.ctl("stream", sorted(glob.glob(f"{d.dir}/eeg/**/*.edf", recursive=True))[0], "--model", "line_length", "--plot", plot)
    assert code == 0 and os.path.getsize(plot) > 20000, err
    return 0


def check_curves(d, job):
    code, text, err = d.ctl("job", job, "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert code == 0 and rows, err
    folder = d.job(job)["directory"]
    lines = [json.loads(line) for line in read(f"{folder}/metrics.jsonl").splitlines()]
    assert [(r["kind"], int(r["step"])) for r in rows] == [(x["kind"], x["step"]) for x in lines]
    assert all(float(r["loss"]) == x["loss"] for r, x in zip(rows, lines)) and {"auroc", "gradient_norm", "definition"} <= set(rows[0])
    # An attempt that was killed leaves steps that the next one writes again.
    with open(f"{folder}/metrics.jsonl", "a", encoding="utf-8") as f:
        f.write(json.dumps({**lines[0], "loss": 7}) + "\n" + '{"kind": "st')
    again = list(csv.DictReader(io.StringIO(d.ctl("job", job, "--csv")[1])))
    assert [r["loss"] for r in again if r["kind"] == lines[0]["kind"] and int(r["step"]) == lines[0]["step"]] == ["7"], again


def check_comparison(d, a, b):
    code, text, err = d.ctl("compare", a, f"job:{b}", "--json", "--plot", f"{d.dir}/both.svg")
    assert code == 0, err
    found = json.loads(text)
    keys = {row["key"]: (row["a"], row["b"]) for row in found["configuration"]}
    assert (found["a"], found["b"]) == (a, b) and keys == {"checkpoint.every": ("2m", "9m"), "training.loss.gamma": (None, 1.5), "training.learning_rate": (0.002, 0.0007), "training.max_steps": (4, 6)}, keys
    loss = next(c for c in found["curves"] if c["name"] == "training loss")
    assert loss["a"]["last_step"] == 4 and loss["b"]["last_step"] == 6 and loss["a"]["best"] <= loss["a"]["last"], loss
    text = d.ctl("compare", a, b)[1]
    assert "training.max_steps" in text and "(+2)" in text and "(default)" in text and "training loss" in text, text
    assert f"dashed: B, {b}" in read(f"{d.dir}/both.svg")
    assert d.ctl("compare", a, "nobody")[0] == 3
    failed = d.submit(*MINI, f"data.source=file://{d.dir}/eeg", "data.montage=[Fp1,Nose]")[1]["job"]
    code, _, err = d.ctl("report", f"job:{failed}")
    assert code == 3 and f"job:{failed} has neither a report nor events" in err and "/brrctl-" not in err, err
    code, out, err = d.ctl("report", f"job:{a}", "--output", f"{d.dir}/training.html")
    assert "the result and the curves of the job; it has no events" in out, out
    page = read(f"{d.dir}/training.html")
    assert code == 0 and "<th>auroc</th>" in page and "<th>best_step</th>" in page, err  # its scores


def check_job(d, job):
    """An evaluation has pages of EEG from the folder that the caller names, its own picture as an image, and its alarms in files."""
    code, end, err = d.submit(f"evaluate.checkpoint=job:{job}", f"data.source=file://{d.dir}/eeg", "evaluate.alarm_hop_s=8",
                              file=f"{os.environ['BRR_SOURCE_DIR']}/configs/eval.yaml")
    assert code == 0 and end["state"] == "succeeded", (end, err)
    folder = d.job(end["job"])["directory"]
    assert len(glob.glob(f"{folder}/events/**/*_alarms.tsv", recursive=True)) == 3
    unnamed, page, _ = report(d, f"job:{end['job']}", "unnamed")
    assert unnamed["pages"] == 0 and "name it with --eeg" in unnamed["note"], "a folder that only the daemon's job file names is read"
    result, page, text = report(d, f"job:{end['job']}", "evaluation", "--eeg", f"{d.dir}/eeg")
    lengths = re.findall(r'<td class="n">\d+:\d\d</td>', read(f"{d.dir}/evaluation.html"))  # 0:50, not 0.01 hours
    assert len(lengths) == 3 and "minutes" in text, lengths
    assert result["recordings"] == 3 and page.classes.count("eeg") == result["pages"] > 0, result
    listed = d.ctl("jobs", "--sort", "f1")[1].splitlines()  # the best event F1 first, jobs without a score last
    at, scored = listed[0].index("F1"), [line for line in listed[1:] if line[0] != " "]
    scores = [line[at:at + 6].strip() for line in scored]
    f1 = end["result"]["event_f1"]
    assert f"{f1:.3f}" in scores and scores == sorted(scores, key=lambda x: -1.0 if x == "-" else float(x), reverse=True), listed
    assert "model_sha256" in text and "evaluate.alarm_hop_s=8" in text and "alarms, at most" in picture(f"{d.dir}/evaluation.html")
    training, _, text = report(d, f"job:{job}", "training")
    assert "has no events" in training["note"], training
    assert training["pages"] == 0 and "training loss" in picture(f"{d.dir}/training.html")


def check_completion(d, job):
    """Ids of jobs and names of models come from the daemon."""
    for words, offered in ((f"logs {job[:-1]}", job), (f"compare {job} {job[:-1]}", job), (f"report job : {job[:-1]}", job), ("stream x --model line_l", "line_length")):
        asked = f'source <(brrctl completion bash)\nCOMP_WORDS=(brrctl {words}); COMP_CWORD={len(words.split())}; _brrctl; echo "got ${{COMPREPLY[*]}}"'
        r = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, env={**d.env, "PATH": f"{BIN}:{os.environ['PATH']}"})
        assert offered in r.stdout.split() and r.stdout.startswith("got "), (words, r)


def check_files(d, job):
    """Files by pattern; checkpoints stay where they are."""
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    proto = f"{os.environ['BRR_SOURCE_DIR']}/proto"
    subprocess.run(["protoc", f"-I{proto}", "--include_imports", f"-o{d.dir}/jobs.pb", "brr/v1/jobs.proto"], check=True)
    files = descriptor_pb2.FileDescriptorSet()
    with open(f"{d.dir}/jobs.pb", "rb") as f:
        files.ParseFromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    made = {n: message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(f"brr.v1.{n}")) for n in ("JobFilesRequest", "JobFilePart")}
    with grpc.insecure_channel(f"unix:{d.socket}") as channel:
        call = channel.unary_stream("/brr.v1.Jobs/Files", request_serializer=lambda m: m.SerializeToString(), response_deserializer=made["JobFilePart"].FromString)
        got, name = {}, None
        for part in call(made["JobFilesRequest"](id=job, patterns=["*"])):
            name = part.path or name
            got[name] = got.get(name, b"") + part.data
        assert {"metrics.jsonl", "report.json", "training.svg", "log.txt"} <= set(got) and not any("checkpoints" in n for n in got), got.keys()
        with open(f"{d.job(job)['directory']}/training.svg", "rb") as f:
            assert got["training.svg"] == f.read()
        assert not list(call(made["JobFilesRequest"](id=job, patterns=["checkpoints/*", "../*"])))
        for wrong in ({"id": job}, {"id": "nobody", "patterns": ["*"]}, {"id": job, "patterns": ["*"] * 17}):
            try:
                list(call(made["JobFilesRequest"](**wrong)))
                raise AssertionError(f"{wrong} was answered")
            except grpc.RpcError as e:
                assert e.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), e


def main():
    with temporary() as tmp:
        d = Daemon(tmp).start()
        make_corpus(f"{tmp}/eeg", seed=3, patients=3, hours=0.05)
        check_folder(d)
        check_base_names(d)
        sets = [*MINI, f"data.source=file://{tmp}/eeg", "training.epochs=1"]
        jobs = [d.submit(*sets, *more)[1] for more in (["training.max_steps=4"], ["training.max_steps=6", "training.learning_rate=7e-4", "training.loss.gamma=1.5", "checkpoint.every=9m"])]
        assert all(j["state"] == "succeeded" for j in jobs), jobs
        a, b = (j["job"] for j in jobs)
        check_comparison(d, a, b)
        check_job(d, a)
        check_files(d, a)
        check_completion(d, a)
        check_curves(d, b)
        code = check_pictures(d, a)
        assert d.stop() == 0
    return code


if __name__ == "__main__":
    sys.exit(main())
