"""The work that goes on while faults are injected, and the record of what was acknowledged: streams, trainings, small jobs, downloads,
promotions, and a reader of metrics and pages."""
import faulthandler
import hashlib
import os
import random
import subprocess
import threading
import time
import urllib.error
import urllib.request

import grpc
import numpy

from delays import Delays
from daemon import BIN, MINI, PATIENCE, SOURCE, tensors
from resume_client import Resuming, same
from stock import Stock
from stock_process import LIMITED
from test_half_open import descriptors, rss
from test_kill_training import OVER, Training
from test_stream_survival import wire_of

ALARMS = 2  # seconds
SPEED = 6  # times real time
STEPS = 160
CORPORA = 4  # of the same contents, more than the cache may keep, so that trainings download
COUNTED = ("streams", "streams begun anew", "command streams", "commands refused", "unsaved commands lost", "trainings", "job resumes", "jobs", "cancels", "downloads",
           "promotions")
FOLLOW = 0.5  # seconds between two looks
REFUSED_FOR_GOOD = ("INVALID_ARGUMENT", "PERMISSION_DENIED", "UNIMPLEMENTED")  # of a stream that has not begun
UNSAVED = ("cannot write snapshots", "could not write snapshots")  # said to a client before its stream can be lost
LOST_FOR_GOOD = ("NOT_FOUND", "PERMISSION_DENIED", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "DATA_LOSS", "OUT_OF_RANGE", "UNIMPLEMENTED")


class Bedside(Resuming):
    """A stream that comes back after whatever ended its connection, unless that says that the stream is lost."""

    retry_s = 0.3

    def __init__(self, *args, **changes):
        super().__init__(*args, alarm_hop_s=ALARMS, **changes)
        self.sha, self.refused, self.began_anew, self.ward, self.connected = None, {}, 0, None, 0.0

    def begin_anew(self, sha):
        """The daemon has forgotten a session of which nothing was durable: every sample is sent again."""
        self.session, self.began_anew = "", self.began_anew + 1
        if sha != self.sha:  # the name serves another model by now
            self.sha, self.results, self.alarms, self.next_result, self.next_alarm = None, {}, {}, 0, 0

    def take(self, m, opened, first_sample):
        if m.HasField("opened"):
            if self.session and not m.opened.resumed and not self.durable and not m.opened.next_sample:
                self.begin_anew(m.opened.model_sha256)
            assert self.sha in (None, m.opened.model_sha256), "the stream goes on under another model"
            self.sha = m.opened.model_sha256
            self.connected = time.monotonic()
        if self.ward:
            self.ward.hear(m, self.connected, m.HasField("alarm") and m.alarm.alarm_seq not in self.alarms)
        if m.HasField("result") and m.result.HasField("quality"):
            m.result.quality.measured_rate_hz = 0  # the one field that is no function of the samples
            if not m.result.quality.ByteSize():
                m.result.ClearField("quality")
        if m.HasField("ack") and m.ack.unsaved:
            return  # the daemon cannot write snapshots, and says that it promises nothing
        super().take(m, opened, first_sample)

    def may_return(self, error):
        detail = self.wire.common.ErrorDetail.FromString(dict(error.trailing_metadata() or ()).get("brr-error-bin", b""))
        name = f"{error.code().name} {detail.reason}".strip()
        self.refused[name] = self.refused.get(name, 0) + 1
        if not self.session:
            return error.code().name not in REFUSED_FOR_GOOD
        return error.code().name not in LOST_FOR_GOOD and (error.code().name != "ABORTED" or detail.reason in ("", "TAKEN_OVER"))


class Ward:
    """d: the daemon; relays: its endpoints, in front of which connections can be cut; models: files by name; store: a FakeS3."""

    def __init__(self, d, relays, recordings, models, store, seed):
        self.d, self.relays, self.recordings, self.models, self.store, self.seed = d, relays, recordings, models, store, seed
        self.over, self.lock = threading.Event(), threading.Lock()
        self.losses, self.threads = [], []
        self.counts = dict.fromkeys(COUNTED, 0)
        self.refused, self.looks, self.silences = {}, [], []
        self.delays, self.heard, self.slow_stops = Delays(d.clock_steps), 0, []  # heard: messages of all streams
        self.served, self.serving, self.jobs, self.cancelled = None, None, {}, set()
        self.stock = Stock(grpc.insecure_channel(relays[0].endpoint, options=list(LIMITED.items())), f"{d.dir}/stubs")
        self.wires = [wire_of(d, r, models["a"]) for r in recordings]
        self.shas = {}
        for name, path in models.items():
            with open(path, "rb") as f:
                self.shas[name] = hashlib.sha256(f.read()).hexdigest()

    def lose(self, what, detail=""):
        with self.lock:
            self.losses.append({"at": time.monotonic(), "what": what, "detail": str(detail)[:2000]})
        print(f"LOST: {what}: {detail}", flush=True)

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    # ---- what an undisturbed daemon answers ----

    def take_references(self):
        self.wanted, self.files = {}, {}
        for n, wire in enumerate(self.wires):
            for name, path in self.models.items():
                self.wanted[n, self.shas[name]] = Bedside(wire, self.d.env["BRR_ENDPOINT"], chunk=1000, model=path).run()
                assert sum(map(len, self.wanted[n, self.shas[name]].alarms.values())) > 0, "no alarm: the streams would compare nothing"
                self.files[n, name] = self.play(n, name, self.d.env["BRR_ENDPOINT"], "reference")
        for n in range(CORPORA):
            self.put_corpus(n)
        t = self.train(0)
        self.trained = self.result_of(t)

    def play(self, n, name, endpoint, who, *options):
        """The files of `brrctl stream`, or its error."""
        out = [f"{self.d.dir}/{who}.{kind}" for kind in ("tsv", "npy")]
        r = subprocess.run([f"{BIN}/brrctl", "stream", self.recordings[n], "--model", self.models[name], "--output", out[0], "--probabilities", out[1],
                            *options], env={**self.d.env, "BRR_ENDPOINT": endpoint}, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if r.returncode:
            return f"exit status {r.returncode}: {r.stderr[-2000:]}"
        with open(out[0], "rb") as f:
            return f.read(), numpy.load(out[1]).tobytes()

    # ---- streams ----

    def hear(self, m, connected, new_alarm):
        self.heard += 1
        if new_alarm and m.alarm.on and m.alarm.live:
            self.delays.arrived(m.alarm.wall_time_ms, connected)

    def stream(self, k):
        rng = random.Random(self.seed * 100 + k)
        while not self.over.is_set():
            n, chunk = rng.randrange(len(self.wires)), rng.choice((32, 64, 200))
            model = rng.choice([*self.models.values(), "ward"])
            wire = self.wires[n]
            s = Bedside(wire, self.relays[k % len(self.relays)].endpoint, chunk=chunk, pause_s=chunk / wire.rate / SPEED, model=model,
                        realtime=rng.random() < 0.7, client_name=f"bed {k}")
            s.ward = self
            try:
                s.run()
                same(s, self.wanted[n, s.sha])
                self.count("streams")
            except Exception as error:  # whatever it is, the stream is not what it was promised to be
                self.lose(f"stream of {os.path.basename(model)}, session {s.session[:8]}", f"{type(error).__name__}: {error}"[:1500])
            with self.lock:
                self.counts["streams begun anew"] += s.began_anew
                for name, times in s.refused.items():
                    self.refused[name] = self.refused.get(name, 0) + times

    def command_stream(self, k):
        rng = random.Random(self.seed * 100 + 50 + k)
        while not self.over.is_set():
            n, name = rng.randrange(len(self.wires)), rng.choice(list(self.models))
            got = self.play(n, name, self.relays[k % len(self.relays)].endpoint, f"command{k}", "--realtime", str(SPEED), "--as-live")
            if got == self.files[n, name]:
                self.count("command streams")
            elif isinstance(got, str) and any(words in got for words in UNSAVED):
                self.count("unsaved commands lost")  # as it was told: no snapshot could be written
            elif isinstance(got, str) and "cannot be opened" not in got and not self.began(got):
                self.count("commands refused")  # before its session began: nothing was acknowledged
                time.sleep(1)
            else:
                self.lose(f"brrctl stream {name}", got if isinstance(got, str) else "other files than those of an undisturbed stream")

    @staticmethod
    def began(text):
        return "session" in text or "samples" in text

    # ---- jobs ----

    def call(self, method, request, patience=PATIENCE):
        """The answer, however often the connection is lost meanwhile; None once the daemon says no."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                return method(request, timeout=60)
            except grpc.RpcError as error:
                if error.code().name in ("NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION"):
                    return None
                time.sleep(0.3)
        self.lose("no answer", type(request).__name__)
        return None

    def submit(self, request_id, *sets):
        jobs = self.stock.jobs
        with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
            file = jobs.JobFile(yaml=f.read(), name="tiny.yaml", overrides=[*MINI, "limits.restarts=1000", *sets])
        answer = self.call(self.stock.Jobs.Submit, jobs.SubmitRequest(file=file, request_id=request_id))
        if answer is None:
            self.lose("a job was refused", request_id)
            return None
        if self.jobs.setdefault(request_id, answer.job.id) != answer.job.id:
            self.lose("a request_id gave a second job", request_id)
        return answer.job.id

    def job(self, job_id):
        found = self.call(self.stock.Jobs.Get, self.stock.jobs.GetJobRequest(id=job_id))
        if found is None:
            self.lose("an acknowledged job is gone", job_id)
        return found

    def state(self, job):
        return self.stock.jobs.JobState.Name(job.state).removeprefix("JOB_STATE_").lower()

    def finished(self, job_id):
        """The job once it has succeeded. One that failed is resumed, as its operator would do."""
        deadline = time.monotonic() + PATIENCE
        while (job := self.job(job_id)) is not None:
            if time.monotonic() > deadline:
                return job
            state = self.state(job)
            if state == "succeeded" or state == "cancelled":
                return job
            if state in OVER:
                print(f"job {job_id} {state}: {job.reason}", flush=True)
                self.count("job resumes")
                self.call(self.stock.Jobs.Resume, self.stock.jobs.ResumeJobRequest(id=job_id))
            time.sleep(FOLLOW)
        return None

    def put_corpus(self, n):
        root = os.path.dirname(os.path.dirname(self.recordings[0]))
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    self.store.objects[f"{n}/{os.path.relpath(path, root)}"] = f.read()

    def train(self, n):
        job_id = self.submit(f"training {n}", f"data.source=store://bucket/{n % CORPORA}", f"training.max_steps={STEPS}", "training.validate_every=15",
                             "checkpoint.every=1s", "checkpoint.keep=1", "events.threshold=auto")
        job = job_id and self.finished(job_id)
        if not job or self.state(job) != "succeeded":
            self.lose("a training did not succeed", job)
            return None
        t = Training(self.d, job_id)
        t.dir = self.d.inside(t.dir)
        return t

    @staticmethod
    def result_of(t):
        return t.files(), {name: tensors(f"{t.dir}/checkpoints/{name}") for name in t.checkpoints()}

    def trainings(self):
        n = 1
        while not self.over.is_set():
            t = self.train(n)
            got = t and self.result_of(t)
            if got and got != self.trained:
                self.lose("another training than undisturbed", f"{t.job}: {got} instead of {self.trained}")
            self.count("trainings")
            n += 1

    def small_jobs(self):
        rng, n = random.Random(self.seed + 7), 0
        while not self.over.wait(rng.uniform(3, 8)):
            job_id = self.submit(f"small {n}", f"data.source=file://{os.path.dirname(os.path.dirname(self.recordings[0]))}", "training.max_steps=1",
                                 "data.validation_fraction=0")
            n += 1
            self.count("jobs")
            if job_id and rng.random() < 0.7:
                answer = self.call(self.stock.Jobs.Cancel, self.stock.jobs.CancelJobRequest(id=job_id))
                if answer and self.state(answer) == "cancelled":
                    self.cancelled.add(job_id)
                    self.count("cancels")

    # ---- models ----

    def promote(self, name):
        """Serves this model as `ward`. The one acknowledged last must be served until the next promotion begins."""
        self.serving, self.served = name, None  # until it is acknowledged, either may serve
        try:
            got = self.stock.Checkpoints.Promote(self.stock.checkpoints.PromoteRequest(ref=self.models[name], name="ward"), timeout=60)
        except grpc.RpcError:
            return
        self.served = name
        self.count("promotions")
        if got.sha256 != self.shas[name]:
            self.lose("a promotion acknowledged another model", got)

    def check_served(self):
        """Waits while the model is being loaded, and forgets the check if another promotion begins meanwhile."""
        wanted, deadline = self.served, time.monotonic() + PATIENCE
        while wanted and self.served == wanted:
            sha = (self.d.models() or {}).get("ward", {}).get("sha256")
            if sha == self.shas[wanted]:
                return
            if sha and self.served == wanted or time.monotonic() > deadline:
                self.lose("an acknowledged promotion", f"ward serves {sha}, promoted was {wanted} = {self.shas[wanted]}")
                return
            time.sleep(FOLLOW)

    def downloads(self):
        names, k, file = sorted(self.models), 0, f"{self.d.dir}/download"
        while not self.over.wait(1):
            name, k = names[k % len(names)], k + 1
            r = subprocess.run([f"{BIN}/brrctl", "checkpoint", "get", self.models[name], "--output", file], capture_output=True, timeout=PATIENCE,
                               env={**self.d.env, "BRR_ENDPOINT": self.relays[k % len(self.relays)].endpoint}, check=False)
            if r.returncode:
                continue
            self.count("downloads")
            with open(file, "rb") as f:
                if hashlib.sha256(f.read()).hexdigest() != self.shas[name]:
                    self.lose("a download ended well with other bytes", name)

    # ---- looking on ----

    def http(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.d.port}{path}", timeout=10) as answer:
                return answer.read()
        except (urllib.error.HTTPError, urllib.error.URLError, OSError):
            return None

    def look(self):
        """One line of what the daemon costs; None while it is away."""
        try:
            return {"at": time.monotonic(), "pid": self.d.process.pid, "rss": rss(self.d), "descriptors": descriptors(self.d)}
        except (OSError, StopIteration):
            return None

    def watch(self):
        heard = time.monotonic()
        while not self.over.wait(FOLLOW):
            if (line := self.look()):
                self.looks.append(line)
            answered = self.http("/healthz")
            for path in ("/metrics", "/readyz", "/"):
                self.http(path)
            if answered:
                self.silences.append(time.monotonic() - heard)
                heard = time.monotonic()

    # ---- the whole ----

    def start(self, streams, commands):
        work = [(self.stream, (k,)) for k in range(streams)] + [(self.command_stream, (k,)) for k in range(commands)]
        for target, args in [*work, (self.trainings, ()), (self.small_jobs, ()), (self.downloads, ()), (self.watch, ())]:
            self.threads.append(threading.Thread(target=self.guarded, args=(target, args), daemon=True, name=target.__name__))
            self.threads[-1].start()

    def guarded(self, target, args):
        try:
            target(*args)
        except Exception as error:  # a failure of the program itself must not pass for success
            self.lose(f"{target.__name__} ended", f"{type(error).__name__}: {error}")

    def finish(self):
        """No new work; what is under way ends."""
        self.over.set()
        for t in self.threads:
            t.join(PATIENCE)
            if t.is_alive():
                faulthandler.dump_traceback()
                self.lose(f"{t.name} did not end")

    def check_records(self):
        """Every acknowledged job is there, under its request, and has come to its end; what was cancelled stays so."""
        for request_id, job_id in self.jobs.items():
            job = self.finished(job_id)
            if job is None:
                continue
            if job_id in self.cancelled and self.state(job) != "cancelled":
                self.lose("an acknowledged cancel", f"{job_id} is {self.state(job)}")
            if job_id not in self.cancelled and self.state(job) != "succeeded" and not request_id.startswith("small"):
                self.lose("an acknowledged job", f"{job_id} is {self.state(job)}: {job.reason}")
