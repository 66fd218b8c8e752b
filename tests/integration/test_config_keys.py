#!/usr/bin/env python3
"""Every key of daemon.yaml does what it says, or is refused where it stands; so are keys of stores and jobs that would do nothing."""
import json
import signal
import subprocess
import sys
import time

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, free_port, make_corpus, temporary
from stream_fixture import Edf, start, streaming_daemon

REFUSED = {
    "limits.resume_ttl=2h": "resume_ttl", "limits.message_control=1MiB": "unsupported yet", "limits.message_data=8MiB": "unsupported yet",
    "limits.networks_memory=much": "expected auto or a size", "limits.network_memory=none": "expected a size", "limits.networks=0": "1 to 10000",
    "tls.cert=a": "set together", "tls.key=a": "set together", "tls.client_ca=a": "does nothing without tls.cert", "listen.unix_mode=0066": "octal mode",
    "listen.unix_mode=rw": "octal mode", "serve_precision=fp16": "expected fp32|bf16",
    "serve=[{name: a, checkpoint: b, max_delay_ms: 1001}]": "max_delay_ms", "serve=[{name: a, checkpoint: b, alarm_hop_s: 5}]": "unsupported yet",
    "listen.tcp=0.0.0.0:7000": "brrctl tls init", "http.listen='[::]:7000'": "brrctl tls init",
    "listen.tcp=127.evil.example:7000": "brrctl tls init", "devices=[cpu, cpu]": "listed twice", "devices=[cpu, cpu:1]": "beside other CPU devices", "devices=[cpu:0, gpu]": "expected auto, cpu, cpu:N",
    "stores={a: {url: 'file:///x', anonymous: true}}": "anonymous does nothing for a directory",
    "stores={a: {url: 'file:///x', endpoint: 'http://h'}}": "endpoint does nothing for a directory",
    "stores={a: {url: 's3://x', anonymous: true, credentials: env}}": "contradict",
    "beds=a, b": "expected a list: [a, b]", "http.names=a, b": "expected a list: [a, b]",
    "alarms.rejoin=30": "expected a duration like 90s", "listen.unix_group=no-such-group": "there is no group",
    "alarms.url=http://eeg.example:9464": "expected https://", "alarms.url=eeg.example": "expected https://",
    "alarms.hooks=[{name: a, command: [/bin/true], bed: 'bed-[1'}]": "[ without its ]",
    "alarms.hooks=[{name: a, command: [/bin/true], environment: 'HOOK_[A'}]": "alarms.hooks: environment: 'HOOK_[A' has a [ without its ]",
    "executors={cluster: {kind: slurm, environment: [PATH, 'AWS_[A-Z']}}": "executors: environment: 'AWS_[A-Z' has a [ without its ]",
    "alarms.hooks=[{name: a, command: [/]}]": "Is a directory", "alarms.url=https://": "expected https://", "alarms.url=https:///streams": "expected https://",
    "alarms.url='https://eeg ward'": "expected https://", "alarms.hooks=[{name: a, url: 'https://:443/', secret_file: /a}]": "expected https://",
    "beds=[a, brrctl]": "'brrctl' is a program's own name", 'beds=["a\\nb"]': "a control character",
    "serve=[{name: a, checkpoint: ward}, {name: a, checkpoint: line_length}]": "the name a stands twice",
    "jobs.database=/nowhere/jobs.sqlite": "No such file", "journal.file=/nowhere/journal.sqlite": "No such file",
    "listen.unix=/nowhere/s": "No such file", "viewer.corrections=/dev/null/a": "Not a directory",
    "sessions.shared=/dev/null/a": "Not a directory",
    "beds=[a, {name: a}]": "a stands twice", "beds=[[a]]": "expected a list of names", "beds={a: off}": "expected a list of names",
    "serve=[{name: ward, checkpoint: /nowhere/net.safetensors}]": "there is no model file /nowhere/net.safetensors",
    "serve=[{name: ward, checkpoint: 'store://none/net.safetensors'}]": "has no store 'none'",
}
ACCEPTED = ["limits.resume_ttl=60s", "limits.message_control=256KiB", "limits.message_data=4MiB", "limits.session_idle=none", "tls=null", "auth=null", "listen.unix_mode=0666", "listen.unix_group=root",
            "serve=[{name: ward, checkpoint: 'job:train-260101-1'}]", "beds=[a, {name: b, alarms: off}, {name: c, least: 10s, alarms: on}]",
            "stores={a: {url: 'file:///x'}, b: {url: 's3://x', anonymous: true, region: eu-west-1, path_style: true, requester_pays: true}}"]


def check_config(*sets):
    args = [a for s in sets for a in ("--set", s)]
    r = subprocess.run([f"{BIN}/brrd", "--config", f"{SOURCE}/configs/demo.yaml", "--check-config", *args], capture_output=True, text=True, timeout=PATIENCE)
    return r.returncode, r.stderr


def keys_that_do_nothing_are_refused():
    for key, word in REFUSED.items():
        code, err = check_config(key)
        assert code != 0 and word in err and key.split("=")[0].split(".")[-1] in err.replace("store a", "stores"), (key, code, err)
    hooks = "alarms.hooks=[{name: a, command: [/bin/true], bed: 'icu-[1-3]'}]"
    code, err = check_config("beds=[bed-1]", hooks)
    assert code != 0 and "alarms.hooks: a: bed 'icu-[1-3]' matches no bed of the roster" in err, err
    for roster in ("beds=[bed-1, icu-2]", "beds=[]"):
        assert check_config(roster, hooks, "alarms.url=https://eeg.example:9464")[0] == 0, roster
    code, err = check_config(*ACCEPTED)
    assert code == 0, err


def options_stand_once_and_may_have_their_value_behind_an_equals_sign():
    demo = f"{SOURCE}/configs/demo.yaml"
    for words, code, text in (([f"--config={demo}", "--set=limits.sessions=2"], 0, "fine"), ([f"--config={demo}", "--set=limits.sessions=0"], 1, "expected 1 to 10000"),
                              (["--config", demo, "--config", demo], 2, "--config was given too often")):
        r = subprocess.run([f"{BIN}/brrd", "--check-config", *words], capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == code and text in r.stdout + r.stderr, (words, r)


def job_keys_that_do_nothing_are_refused(d, source):
    for file, key in (("tiny", "evaluate.plots=3"), ("eval", "events.on=0.5"), ("eval", "data.validation_fraction=0.1"), ("eval", "data.resident=off")):
        code, _, err = d.ctl("validate", f"{SOURCE}/configs/{file}.yaml", "--set", source, "--set", key)
        assert code == 1 and key.split(".")[0] in err and "leave it out" in err, (key, code, err)
    for key, text in (("model.preset=huge", "model.preset is 'huge'; expected tiny, small or base"), ("training=5", "training is 5; expected keys below it"),
                      ("events={on: 0.5, off: 0.7}", "events.off is 0.7; expected at most events.on (0.5)")):
        code, _, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", source, "--set", key)
        assert code == 1 and text in err, (key, code, err)


def jobs():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21)
        source, tcp = f"data.source=file://{tmp}/eeg", free_port()
        d = Daemon(tmp, ["jobs.max_queued=1", "jobs.default_wall_clock=10s", "jobs.keep_finished=2s", "limits.memory=64MiB", "log.format=json",
                         f"listen.tcp=127.0.0.1:{tcp}", "devices_cpu_threads=1"]).start()
        assert d.ctl("version", "--endpoint", f"127.0.0.1:{tcp}")[0] == 0
        d.process.send_signal(signal.SIGHUP)
        deadline = time.time() + PATIENCE
        while "done" not in d.ctl("metrics", "brrd_config_reloads_total")[1]:
            assert time.time() < deadline, d.ctl("metrics", "brrd_config_reloads_total")
            time.sleep(0.05)
        assert "1 thread" in d.ctl("devices")[1], d.ctl("devices")
        job_keys_that_do_nothing_are_refused(d, source)
        long = [*MINI, source, "training.max_steps=1000000", "training.validate_every=100000"]
        code, out, _ = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--json", "--set", source, "--set", "limits.wall_clock=none")
        assert code == 1 and json.loads(out)["memory_available_bytes"] == 64 << 20, "limits.memory"
        first = d.submit(*long, "limits.wall_clock=none", watch=False)[1]["job"]
        d.wait(first, lambda job: job["state"] == "running")
        second = d.submit(*long, "limits.wall_clock=none", watch=False)[1]["job"]
        code, _, err = d.submit(*long, watch=False)
        assert code == 1 and "jobs.max_queued" in err, (code, err)
        ended = d.wait(first, lambda job: job["state"] == "interrupted")
        assert ended["reason"] == "time_limit", ended
        assert d.ctl("cancel", second)[0] == 0
        deadline = time.time() + PATIENCE
        while d.ctl("jobs", "--json")[1].strip():
            assert time.time() < deadline, "jobs.keep_finished: " + d.ctl("jobs")[1]
            time.sleep(0.2)
        assert d.stop() == 0
        lines = [json.loads(line) for line in d.read_log().splitlines()]
        assert any("serving" in line.values() for line in lines), lines[:3]
        d = Daemon(tmp, ["local_paths=false", "log.level=error"]).start()
        code, _, err = d.submit(*MINI, source, watch=False)
        before = d.read_log().count("msg=")
        assert code == 1 and "local_paths" in err, (code, err)
        assert d.stop() == 0 and before == d.read_log().count("msg=") == 0, "log.level: " + d.read_log()[-500:]


def streams():
    with streaming_daemon(extra=["limits.session_idle=3s", "limits.sessions=1"]) as (d, recording, model):
        edf = Edf(recording)
        process = start(d, "-", model, "--replay", stdin=subprocess.PIPE)
        process.stdin.write(edf.header + edf.body[:20 * edf.record])
        process.stdin.flush()
        assert b"as it comes" in process.stdout.readline()
        code, _, err = d.ctl("stream", recording, "--model", model)
        assert code == 1 and "limits.sessions" in err, (code, err)
        assert process.wait(timeout=PATIENCE) == 1, "limits.session_idle"
        assert b"limits.session_idle" in process.stderr.read()
        process.stdin.close()


def main():
    keys_that_do_nothing_are_refused()
    options_stand_once_and_may_have_their_value_behind_an_equals_sign()
    jobs()
    streams()
    return 0


if __name__ == "__main__":
    sys.exit(main())
