#!/usr/bin/env python3
"""Validate surveys one corpus at a time: calls that were abandoned over a folder that does not answer leave the thread pool to others
and are forgotten. What the cache volume knows of recordings is not read again. Beside a job nothing is measured on the device, also
when it starts later than the call. Nobody has more than half of the line, and a call ends after limits.validate."""
import glob
import os
import sys

from daemon import MINI, PATIENCE, SOURCE, make_corpus, temporary, until
from stock import Stock, grpc
from test_held_volume import HeldDaemon, Waiting

CALLS = 8  # half of the line, which is what one caller may have


def known_recordings_are_not_read(c, request, path):
    """A recording that lost its header behind an unchanged size and time counts as before; with a new time it is read."""
    size, time_ns = os.path.getsize(path), os.stat(path).st_mtime_ns
    with open(path, "r+b") as f:
        header = f.read(256)
        f.seek(0)
        f.write(bytes(256))
    os.utime(path, ns=(time_ns, time_ns))
    assert os.path.getsize(path) == size
    facts = {p.key: p.value for p in c.Jobs.Validate(request).facts}
    assert "cannot be used" not in facts, facts
    os.utime(path, ns=(time_ns + 1, time_ns + 1))
    answer = c.Jobs.Validate(request)
    assert {p.key: p.value for p in answer.facts}["cannot be used"] == "1 recording", answer
    assert any(os.path.basename(path) in n for n in answer.notices), answer
    with open(path, "r+b") as f:
        f.write(header)


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = HeldDaemon(tmp)
        os.environ["BRR_HOLD_PATH"] = f"{tmp}/eeg/sub-02"
        d.start()
        c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
        with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
            file = c.jobs.JobFile(yaml=f.read(), name="tiny.yaml", overrides=[*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0"])
        request = c.jobs.ValidateRequest(file=file)
        assert c.Jobs.Validate(request).seconds_per_step > 0
        known_recordings_are_not_read(c, request, sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0])
        d.hold()
        calls = [c.Jobs.Validate.future(request) for _ in range(CALLS)]

        def refused():
            """One caller may not have more than half of the line, once the calls have come to it."""
            try:
                c.Jobs.Validate(request, timeout=2)
            except grpc.RpcError as error:
                return "8 job files of yours" in error.details()
            raise AssertionError("the folder was not needed")
        until(refused, "one caller has more than half of the line")
        assert not any(call.done() for call in calls), "the folder was not needed"
        listing = Waiting("List", lambda: c.Checkpoints.List(c.checkpoints.ListCheckpointsRequest()))
        listing.join(timeout=PATIENCE)
        assert not listing.is_alive() and not listing.error, "abandoned Validate calls hold the pool"
        for call in calls:
            call.cancel()
        d.release()
        assert c.Jobs.Validate(request).recordings == 2  # after what was under way, which stops at the next recording

        d.hold()
        begun = c.Jobs.Validate.future(request)
        file.overrides.append("training.max_steps=100000")
        job = c.Jobs.Submit(c.jobs.SubmitRequest(file=file)).job.id
        d.wait(job, lambda j: j["state"] == "preparing")
        d.release()
        d.wait(job, lambda j: j["state"] == "running")
        for beside in (begun.result(), c.Jobs.Validate(request)):
            assert beside.seconds_per_step == 0 and beside.steps > 0 and any("not measured" in n for n in beside.notices), beside
        d.ctl("cancel", job)
        assert d.stop() == 0
        d.extra += ["limits.validate=1s"]
        d.start()
        d.hold()
        for _ in range(2):  # the second one lines up behind the work of the first, which hangs
            code, _, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", "--set", f"data.source=file://{tmp}/eeg")
            assert code == 4 and "within 1 s (limits.validate)" in err, (code, err)
        d.release()
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
