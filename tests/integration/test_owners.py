#!/usr/bin/env python3
"""Jobs and streams belong to the caller that made them: others do not cancel, resume, delete or observe them, but for the role admin and,
for streams, tokens with the word `all`. A job that is deleted leaves neither record nor folder, and nothing in use is deleted."""
import atexit
import csv
import glob
import io
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from daemon import BIN, MINI, PATIENCE, SOURCE, make_corpus, temporary
from secured import Secured

SETS = [a for s in [*MINI, "data.source=eeg", "data.validation_fraction=0", "training.max_steps=2"] for a in ("--set", s)]
LONG = ["--set", "training.max_steps=1000000"]


def submit(d, who, *options):
    code, out, err = d.as_role(who, "submit", f"{SOURCE}/configs/tiny.yaml", *SETS, *options, "--json")
    assert code == 0, (err, d.read_log())
    return json.loads(out.splitlines()[-1])


def jobs_of_others(d):
    job = submit(d, "ana", *LONG)["job"]
    shown = json.loads(d.as_role("station", "job", job, "--json")[1])
    assert shown["owner"] == "token:ana", shown
    listed = lambda who: [json.loads(line)["job"] for line in d.as_role(who, "jobs", "--json")[1].splitlines()]
    assert job in listed("ana") and job in listed("station") and listed("bob") == []
    as_json = lambda who: json.loads(api(d, "/api/v1/jobs", open(d.token_file(who), encoding="utf-8").read().strip())[2])["jobs"]
    assert [j["id"] for j in as_json("ana")] == listed("ana") and job in [j["id"] for j in as_json("station")] and as_json("bob") == []
    assert all(set(j) == fields_of("Job", "jobs") and j["file"] is None for j in as_json("ana")), "every field, and no job file"
    for command in (["job", job], ["logs", job], ["watch", job]):
        assert d.as_role("bob", *command)[0] == 3, command
    page = lambda who: d.scrape(f"/jobs/{job}", d.tokens.get(who) or open(d.token_file(who), encoding="utf-8").read().strip())
    assert "token:ana" in page("ana") and "token:ana" in page("station")
    try:
        page("bob")
        raise AssertionError("bob reads the page of ana's job")
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
    for command in ("submit", "validate"):  # a job to wait for that bob may not see is one that is not there
        ask = lambda other: d.as_role("bob", command, f"{SOURCE}/configs/tiny.yaml", *SETS, "--set", f"after={other}")
        code, _, err = ask(job)
        assert code == 3 and f"there is no job '{job}'" in err and err.replace(job, "train-1-1") == ask("train-1-1")[2], err
    for command in ("cancel", "resume", "delete"):
        assert d.refused("bob", command, job) == "NOT_OWNER", command
    code, out, err = d.as_role("ana", "delete", job)
    assert code == 1 and "brrctl cancel" in err, err
    assert d.as_role("ana", "cancel", job)[0] == 0
    d.wait(job, lambda j: j["state"] == "cancelled")
    assert d.refused("bob", "resume", job) == "NOT_OWNER"
    assert d.as_role("admin", "resume", job)[0] == 0, "the role admin"
    assert d.as_role("admin", "cancel", job)[0] == 0
    d.wait(job, lambda j: j["state"] == "cancelled")


def deleted(d, job):
    folder = f"{d.dir}/results/jobs/{job}"
    first = f"job:{job}"
    ref = json.loads(d.ctl("checkpoints", job, "--json")[1].splitlines()[0])["ref"]
    assert d.ctl("checkpoint", "pin", ref)[0] == 0
    code, _, err = d.as_role("ana", "delete", job)
    assert code == 1 and "is pinned" in err and os.path.isdir(folder), err
    assert d.ctl("checkpoint", "unpin", ref)[0] == 0
    user = submit(d, "ana", *LONG, "--set", f"model.init_from={first}")["job"]
    code, _, err = d.as_role("ana", "delete", job)
    assert code == 1 and f"job {user}, which is" in err and os.path.isdir(folder), err
    assert d.as_role("ana", "cancel", user)[0] == 0
    d.wait(user, lambda j: j["state"] == "cancelled")
    code, out, err = d.as_role("ana", "delete", job, "--json")
    assert code == 0 and json.loads(out)["job"] == job and json.loads(out)["state"] == "succeeded", (out, err)
    assert not os.path.exists(folder) and d.ctl("job", job)[0] == 3 and d.ctl("checkpoints", job)[0] == 3
    assert d.ctl("models", "ward")[0] == 0, "what serves has a file of its own"
    d.kill()
    d.start()
    assert d.ctl("job", job)[0] == 3 and d.ctl("models", "ward")[0] == 0


def old_jobs(d):
    """Age and size: what is pinned stays, the oldest others go with their folders."""
    jobs = [submit(d, "ana", "--watch")["job"] for _ in range(3)]
    folders = [f"{d.dir}/results/jobs/{job}" for job in jobs]
    pinned = json.loads(d.ctl("checkpoints", jobs[0], "--json")[1].splitlines()[0])["ref"]
    assert d.ctl("checkpoint", "pin", pinned)[0] == 0
    size = sum(os.path.getsize(os.path.join(root, name)) for folder in folders for root, _, names in os.walk(folder) for name in names)
    extra = d.extra
    assert d.stop() == 0
    d.extra = [*extra, f"jobs.max_size={size * 3 // 4}"]  # of three jobs two fit, and those before have gone or been cancelled
    d.start()
    d.until(lambda: not os.path.exists(folders[1]), "the oldest that is not pinned")
    assert os.path.exists(folders[0]) and d.ctl("job", jobs[1])[0] == 3
    assert d.stop() == 0
    d.extra = [*extra, "jobs.keep_files=1s"]
    d.start()
    d.until(lambda: not os.path.exists(folders[2]), "the last, by age")
    assert os.path.exists(folders[0]) and d.ctl("job", jobs[0])[0] == 0 and d.ctl("job", jobs[2])[0] == 3


def eeg_status(d, who, path):
    """What the viewer is answered; n=0: without samples."""
    try:
        token = who and (d.tokens.get(who) or open(d.token_file(who), encoding="utf-8").read().strip())
        return 200 if '"rows":["Fp1' in d.scrape(f"{path}/eeg?n=0", token) else 0
    except urllib.error.HTTPError as error:
        return error.code


def streams_of_others(d, recording):
    env = {**os.environ, "BRR_ENDPOINT": f"127.0.0.1:{d.tcp}", "BRR_TLS_CA": f"{d.ca}/ca.crt", "BRR_TOKEN_FILE": d.token_file("ana")}
    stream = subprocess.Popen([f"{BIN}/brrctl", "stream", recording, "--model", "ward", "--realtime", "1"], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
    sessions = lambda who: [json.loads(line)["session"] for line in d.as_role(who, "sessions", "--json")[1].splitlines()]
    d.until(lambda: sessions("ana"), "the stream of ana")
    [session] = sessions("ana")
    assert sessions("bob") == [] and sessions("station") == [session] and sessions("admin") == [session]
    assert d.refused("bob", "sessions", "observe", session) == "NOT_OWNER"
    seen = json.loads(d.as_role("station", "sessions", "--json")[1])
    assert seen["principal"] == "token:ana" and seen["address"].startswith("127.0.0.1:") and seen["address"] in d.as_role("admin", "sessions")[1], seen
    assert f'what=opened session={session} client="brrctl" principal="token:ana" peer={seen["address"]}' in d.read_log()
    d.until(lambda: eeg_status(d, "ana", f"/streams/{session}") == 200, "the EEG of ana's patient")
    assert [eeg_status(d, who, f"/streams/{session}") for who in ("station", "admin", "bob", None)] == [200, 200, 404, 401]
    code, out, err = d.as_role("ana", "view", recording, "--json")
    assert code == 0 and "/recordings/" in out, err
    shown = json.loads(out)["url"].partition("/recordings/")[2]
    assert [eeg_status(d, who, f"/recordings/{shown}") for who in ("ana", "station", "bob", None)] == [200, 200, 404, 401]
    assert d.refused("station", "view", recording) == "ROLE_TOO_SMALL" and d.as_role("ana", "view", f"{SOURCE}/README.md")[0] == 1
    stream.kill()
    stream.communicate()
    entries = lambda who: [json.loads(line)["kind"] for line in d.as_role(who, "journal", "--json")[1].splitlines()]
    d.until(lambda: entries("admin")[:1] == ["opened"] and "lost" in entries("admin"), "the journal")
    d.until(lambda: entries("ana") == entries("station") == entries("admin"), "the same for the owner and those who see all")
    assert entries("bob") == []
    assert d.refused("ana", "hooks", "test") == "ROLE_TOO_SMALL"


class Bed:
    """A live stream that stays open, and in it an alarm."""

    def __init__(self, d, token, bed, recording):
        env = {**os.environ, "BRR_ENDPOINT": f"127.0.0.1:{d.tcp}", "BRR_TLS_CA": f"{d.ca}/ca.crt", "BRR_TOKEN_FILE": d.token_file(token)}
        self.process = subprocess.Popen([f"{BIN}/brrctl", "stream", "-", "--live", "--model", "line_length", "--on", "0.2", "--off", "0.15", "--client", bed],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        with open(recording, "rb") as f:
            self.process.stdin.write(f.read())
            self.process.stdin.flush()
        of = lambda command: next((line for line in map(json.loads, d.as_role("admin", *command, "--json")[1].splitlines()) if bed in line.values()), None)
        d.until(lambda: of(("alarms",)) and of(("sessions",)), "a stream and its alarm")
        self.alarm, self.session = of(("alarms",))["alarm"], of(("sessions",))["session"]


def page(d, path, token):
    """An answer to a browser."""
    request = urllib.request.Request(f"https://127.0.0.1:{d.port}{path}", headers={"Authorization": f"Bearer {token}", "Accept": "text/html"})
    return urllib.request.urlopen(request, context=ssl.create_default_context(cafile=f"{d.ca}/ca.crt"), timeout=PATIENCE)


def first_event(d, token):
    with page(d, "/events?page=/streams", token) as answer:
        lines = []
        while not (lines and lines[-1] == "\n" and any(line.startswith("data:") for line in lines)):
            lines.append(answer.readline().decode())
        return "".join(lines)


def api(d, path, token=None, method="GET", host=None):
    """Status, headers and body of an answer to a program, which asks again where it is told to wait."""
    headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **({"Host": host} if host else {})}
    request = urllib.request.Request(f"https://127.0.0.1:{d.port}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=f"{d.ca}/ca.crt"), timeout=PATIENCE) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.headers["Retry-After"]:
            time.sleep(int(error.headers["Retry-After"]))
            return api(d, path, token, method, host)
        return error.code, error.headers, error.read().decode()


def fields_of(name, file):
    """The names of a message's fields, as the .proto file has them."""
    with open(f"{SOURCE}/proto/brr/v1/{file}.proto", encoding="utf-8") as f:
        return set(re.findall(r"^  (?:repeated )?[\w.]+ (\w+) = \d+;", re.search(rf"^message {name} {{\n(.*?)^}}", f.read(), re.M | re.S)[1], re.M))


def lists_as_json(d, token, alarm):
    """/api/v1: the messages with every field, as JSON that no browser takes for a page; nothing but GET, and no other path."""
    note = "</script><img src=x onerror=alert(1)>\"'\\ \u202e\u00e9"
    code, _, err = d.as_role("admin", "alarms", "note", alarm, note)
    assert code == 0, err
    for path, file, items, message in (("beds", "beds", "beds", "Bed"), ("streams", "sessions", "sessions", "SessionInfo"), ("alarms", "alarms", "alarms", "BedAlarm"),
                                       ("models", "checkpoints", "models", "ModelDescription"), ("jobs", "jobs", "jobs", "Job")):
        code, head, body = api(d, f"/api/v1/{path}", token)
        assert code == 200 and head["Content-Type"] == "application/json" and head["X-Content-Type-Options"] == "nosniff", (code, head, body)
        assert head["Cache-Control"] == "no-store" and head["Cross-Origin-Resource-Policy"] == "same-origin", head
        listed = json.loads(body)[items]
        assert listed or path in ("models", "jobs"), (path, body)
        assert all(set(item) == fields_of(message, file) for item in listed), (path, listed[:1])
    assert api(d, "/api/v1/beds", token, "HEAD")[::2] == (200, ""), "HEAD has no body"
    assert {a["bed"] for a in json.loads(api(d, "/api/v1/alarms?open=true&bed=icu-Ahorn", token)[2])["alarms"]} == {"icu-Ahorn"}
    told = {a["id"]: a for a in json.loads(api(d, "/api/v1/alarms?open=true", token)[2])["alarms"]}
    assert told[alarm]["note"] == note and "<img" in api(d, "/api/v1/alarms", token)[2], "a text is a text"
    bed = next(b for b in json.loads(api(d, "/api/v1/beds", token)[2])["beds"] if b["name"] == "icu-Ahorn")
    assert bed["state"] in ("alarm", "was") and bed["alarm"]["id"] in told and bed["alarm"]["on_ms"] > 0 and bed["session_id"], bed
    absent = next(b for b in json.loads(api(d, "/api/v1/beds", token)[2])["beds"] if b["name"] == "icu-Drei")
    assert absent["in_roster"] and absent["state"] in ("absent", "standby") and not absent["session_id"] and absent["probability"] is None, absent
    assert [api(d, "/api/v1/beds", token, method)[0] for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")] == [405] * 5
    for path in ("/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/beds/", "/api/v1/../beds", "/api/v1/%2e%2e/v1/beds", "/api/v1//beds", "/api/v1/BEDS", "/api/v1/logs", "/api/v2/beds",
                 "/api/v1/brr.v1.Jobs/Submit", "/api/v1/" + "x" * 4000):
        assert api(d, path, token)[0] == 404, path
    for words in ("limit=x", "limit=1.5", "limit=99999999999", "limit=", "limit", "states=1", "nothing=1", "<img>=1"):
        code, head, body = api(d, f"/api/v1/jobs?{words}", token)
        assert code == 400 and json.loads(body)["reason"] == "INVALID_ARGUMENT" and head["Content-Type"] == "application/json", (words, body)
    assert api(d, "/api/v1/alarms?bed=%ff", token)[0] == 400 and api(d, "/api/v1/jobs?limit=1", token)[0] == 200
    code, head, body = api(d, "/api/v1/beds")
    assert code == 401 and json.loads(body)["reason"] == "TOKEN_MISSING" and head["Content-Type"] == "application/json", body
    assert api(d, "/api/v1/beds", "wrong")[0] == 401 and api(d, "/api/v1/beds", token, host="evil.example")[0] == 421


def rights_to_beds(d, recording):
    """Each look at beds by a token with `all`, one with names= and one with neither: it shows the beds of that caller, and no name of another one."""
    beds = {"Ahorn": Bed(d, "porter-1", "icu-Ahorn", recording), "Birke": Bed(d, "porter-2", "ward-Birke", recording), "Ceder": Bed(d, "plain", "Ceder", recording)}
    sees = {"house": {"Ahorn", "Birke", "Ceder"}, "icu": {"Ahorn"}, "plain": {"Ceder"}}
    secret = lambda who: open(d.token_file(who), encoding="utf-8").read().strip()
    looks = {" ".join(words): lambda who, words=words: d.as_role(who, *words)[1]
             for words in (("sessions",), ("sessions", "--json"), ("alarms",), ("alarms", "--json"), ("journal", "--json", "--last", "500"), ("journal", "--csv"),
                           ("alarms", "report", "--since", "1h"), ("beds",), ("beds", "--json"))}
    looks |= {path: lambda who, path=path: page(d, path, secret(who)).read().decode() for path in ("/", "/streams", "/streams?wall", "/alarms")}
    looks |= {f"/api/v1/{path}": lambda who, path=path: api(d, f"/api/v1/{path}", secret(who))[2] for path in ("beds", "streams", "alarms")}
    looks["/events"] = lambda who: first_event(d, secret(who))
    for what, look in looks.items():
        for who, expected in sees.items():
            text = look(who)
            assert {bed for bed in beds if bed in text} == expected, (what, who, text)
    for who, expected in sees.items():
        assert ("icu-Drei" in page(d, "/streams", secret(who)).read().decode()) == (who != "plain"), "a bed of the roster without a stream"
        for name, bed in beds.items():
            assert (eeg_status(d, who, f"/streams/{bed.session}") != 404) == (name in expected), (who, name)
            if name not in expected:
                assert d.refused(who, "sessions", "observe", bed.session) == "NOT_OWNER"
    rows = [json.loads(line) for line in d.as_role("house", "beds", "--json")[1].splitlines()]
    assert rows and all(set(row) == fields_of("Bed", "beds") for row in rows), rows
    lists_as_json(d, secret("house"), beds["Ahorn"].alarm)
    assert any("principal=token:house" in line and "method=/api/v1/beds" in line for line in d.read_log().splitlines()), "the audit log"
    assert not any(bed in d.scrape(token=secret("icu")) for bed in beds), "labels of metrics"
    code = lambda who, *words: d.as_role(who, "alarms", *words)[0]
    assert code("icu", "ack", beds["Birke"].alarm) == 3 and code("plain", "ack", beds["Ceder"].alarm) == 1 and code("house", "ack", beds["Ahorn"].alarm) == 1
    assert code("icu", "ack", beds["Ahorn"].alarm) == 0
    assert code("icu", "standby", "icu-Ahorn", "5m") == 0 and code("icu", "standby", "icu-Drei", "5m") == 0 and code("icu", "standby", "ward-Birke", "5m") == 3
    result, _, err = d.as_role("admin", "alarms", "standby", "bed-99", "5m")
    assert result == 3 and "there is no bed 'bed-99'" in err, (result, err)
    rows = list(csv.DictReader(io.StringIO(d.as_role("admin", "journal", "--csv", "--kind", "answered", "--kind", "standby")[1])))
    assert {row["alarm"] for row in rows} >= {beds["Ahorn"].alarm} and any(row["until"].endswith("Z") for row in rows) and all(row["live"] for row in rows), rows
    for bed in beds.values():
        bed.process.kill()
        bed.process.communicate()


def uploads_of_others(d, job):
    """A name belongs to whoever used it first; what serves is readable by all."""
    file = f"{d.dir}/net.safetensors"
    code, _, err = d.as_role("ana", "checkpoint", "get", f"job:{job}", "--out", file)
    assert code == 0, err
    assert d.as_role("bob", "checkpoint", "get", f"job:{job}", "--out", f"{d.dir}/stolen")[0] == 3 and not os.path.exists(f"{d.dir}/stolen")
    assert d.as_role("bob", "checkpoint", "get", "ward", "--out", f"{d.dir}/ward")[0] == 0
    assert d.as_role("ana", "checkpoint", "put", file, "--name", "shared")[0] == 0
    code, _, err = d.as_role("bob", "checkpoint", "put", file, "--name", "shared")
    assert code == 1 and "belongs to token:ana" in err, err
    assert d.as_role("ana", "checkpoint", "put", file, "--name", "shared")[0] == 0 and d.as_role("bob", "checkpoint", "get", "upload:shared", "--out", f"{d.dir}/x")[0] == 3
    refs = lambda who: {json.loads(line)["ref"] for line in d.as_role(who, "checkpoints", "--json")[1].splitlines()}
    assert "upload:shared" in refs("ana") and refs("bob") == set(), refs("bob")


def models_of_others(d, job, recording):
    """Whatever names a model – a stream, a job file, validate, models, verify – finds no job and no upload of another caller."""
    folder = f"{d.dir}/results/jobs/{job}"
    file = next(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".safetensors") and "state" not in name)
    for ref, code in ((f"job:{job}", 3), ("upload:shared", 3), (file, 1)):
        train = ["--set", f"model.init_from={ref}", "--set", "model.preset=null"]
        for command in (["stream", recording, "--model", ref], ["submit", f"{SOURCE}/configs/tiny.yaml", *SETS, *train],
                        ["validate", f"{SOURCE}/configs/tiny.yaml", *SETS, *train], ["models", ref], ["checkpoint", "verify", ref],
                        ["submit", f"{SOURCE}/configs/eval.yaml", "--set", "data.source=eeg", "--set", f"evaluate.checkpoint={ref}"]):
            got = d.as_role("bob", *command)
            assert got[0] == code, (command, got)
            if code == 3 and command[0] == "stream":
                assert d.as_role("ana", *command)[0] in (0, 1), command  # she may, if it fits otherwise


def names_of_beds(d, recording):
    """A token for some beds opens no stream of another name."""
    stream = lambda name: d.as_role("gateway", "stream", recording, "--model", "ward", "--client", name)
    assert stream("bed-7")[0] == 0
    code, _, err = stream("icu-1")
    assert code == 1 and "[NAME_NOT_ALLOWED]" in err and "bed-*" in err, err


def named_by_prefix(d, job):
    """One job, and then two whose ids begin alike."""
    short = job[:4]
    assert json.loads(d.ctl("job", short, "--json")[1])["job"] == job and d.ctl("watch", short)[0] == 0 and "step" in d.ctl("logs", short)[1]
    code, _, err = d.ctl("delete", short)
    assert code == 1 and f"the whole id of a job: {job}" in err, err
    assert d.ctl("job", short[:3])[0] == 3
    other = submit(d, "ana", *LONG)["job"]
    code, _, err = d.ctl("cancel", short)
    assert code == 1 and f"the ids of 2 jobs begin with '{short}'" in err, err
    assert d.ctl("cancel", other)[0] == 0 and d.ctl("watch", other)[0] == 1


def beds():
    with temporary() as tmp:
        d = Secured(tmp, ["beds=[icu-Ahorn, icu-Drei, ward-Birke]"])
        make_corpus(f"{tmp}/alarming", seed=31, patients=1, hours=0.1, seizures=2)
        for role, name, *options in (("read", "house", "--all"), ("read", "icu", "--names", "icu-*", "--answer"), ("stream", "plain"),
                                     ("stream", "porter-1", "--names", "icu-Ahorn"), ("stream", "porter-2", "--names", "ward-*")):
            d.new_token(role, name, *options)
        d.start()
        rights_to_beds(d, glob.glob(f"{tmp}/alarming/**/*_eeg.edf", recursive=True)[0])
        assert d.stop() == 0


def main():
    beds()
    with temporary() as tmp:
        d = Secured(tmp)
        make_corpus(f"{tmp}/data/eeg", seed=5, patients=2, hours=0.04)
        for name, options in (("ana", ()), ("bob", ()), ("station", ("--all",))):
            d.new_token("read" if options else "submit", name, *options)
        d.start()
        end = submit(d, "ana", "--watch")
        assert end["state"] == "succeeded", end
        assert d.as_role("admin", "load", "ward", f"job:{end['job']}")[0] == 0
        named_by_prefix(d, end["job"])
        uploads_of_others(d, end["job"])
        models_of_others(d, end["job"], f"{tmp}/data/eeg/sub-01/sub-01_run-01_eeg.edf")
        streams_of_others(d, f"{tmp}/data/eeg/sub-01/sub-01_run-01_eeg.edf")
        d.new_token("stream", "gateway", "--names", "bed-*")
        d.until(lambda: d.as_role("gateway", "sessions")[0] == 0, "the token of the gateway")
        names_of_beds(d, f"{tmp}/data/eeg/sub-01/sub-01_run-01_eeg.edf")
        jobs_of_others(d)
        deleted(d, end["job"])
        old_jobs(d)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
