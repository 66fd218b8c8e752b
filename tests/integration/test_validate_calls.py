#!/usr/bin/env python3
"""Validate surveys one corpus at a time: calls that were abandoned over a folder that does not answer leave the thread pool to others
and are forgotten. Beside a job nothing is measured on the device."""
import os
import sys
import time

from daemon import MINI, SOURCE, make_corpus, temporary
from stock import Stock
from test_held_volume import HeldDaemon, Waiting

CALLS = 6  # more than the pool has threads


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = HeldDaemon(tmp)
        os.environ["BRR_HOLD_PATH"] = f"{tmp}/eeg/sub-02"
        d.start()
        c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
        with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
            file = c.jobs.JobFile(yaml=f.read(), name="tiny.yaml", overrides=[*MINI, f"data.source=file://{tmp}/eeg"])
        request = c.jobs.ValidateRequest(file=file)
        assert c.Jobs.Validate(request).seconds_per_step > 0
        d.hold()
        calls = [c.Jobs.Validate.future(request) for _ in range(CALLS)]
        time.sleep(2)
        assert not any(call.done() for call in calls), "the folder was not needed"
        listing = Waiting("List", lambda: c.Checkpoints.List(c.checkpoints.ListCheckpointsRequest()))
        listing.join(timeout=120)
        assert not listing.is_alive() and not listing.error, "abandoned Validate calls hold the pool"
        for call in calls:
            call.cancel()
        d.release()
        assert c.Jobs.Validate(request).recordings == 2  # after what was under way, which stops at the next recording

        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0", "training.max_steps=100000", watch=False)
        assert code == 0, err
        d.wait(end["job"], lambda job: job["state"] == "running")
        beside = c.Jobs.Validate(request)
        assert beside.seconds_per_step == 0 and beside.steps > 0 and any("not measured" in n for n in beside.notices), beside
        d.ctl("cancel", end["job"])
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
