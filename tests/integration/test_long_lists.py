#!/usr/bin/env python3
"""Lists that do not fit into one answer are errors that say what to ask for instead; none is cut short in silence."""
import sqlite3
import sys

import grpc

from daemon import Daemon, make_corpus, temporary
from stock import Stock
from stream_fixture import train

JOBS, CHECKPOINTS = 20000, 10001


def copies(db, table, n, changed):
    """Further rows like the newest one of the table; `changed` gives what the i-th has of its own."""
    db.row_factory = sqlite3.Row
    row = dict(db.execute(f"SELECT * FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone())
    db.executemany(f"INSERT INTO {table}({','.join(row)}) VALUES({','.join('?' * len(row))})",
                   [tuple({**row, **changed(i)}.values()) for i in range(n)])
    return row


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = Daemon(tmp).start()
        job = train(d, f"{tmp}/eeg").split("/jobs/")[1].split("/")[0]
        assert d.stop() == 0
        with sqlite3.connect(f"{tmp}/jobs.sqlite") as db:
            copies(db, "jobs", JOBS, lambda i: {"id": f"train-200101-{i + 1000}", "sequence": i + 1000})
            copies(db, "checkpoints", CHECKPOINTS, lambda i: {"job_id": f"train-200101-{i + 1000}"})
        d.start()
        c = Stock(grpc.insecure_channel(d.env["BRR_ENDPOINT"], options=[("grpc.max_receive_message_length", 64 << 20)]), f"{tmp}/stubs")
        assert len(c.Jobs.List(c.jobs.ListJobsRequest()).jobs) == 100
        assert len(c.Jobs.List(c.jobs.ListJobsRequest(limit=1000)).jobs) == 1000
        _, code, text = c.refused(c.Jobs.List, c.jobs.ListJobsRequest(limit=JOBS))
        assert code == "RESOURCE_EXHAUSTED" and "limit" in text, text
        _, code, text = c.refused(c.Checkpoints.List, c.checkpoints.ListCheckpointsRequest())
        assert code == "RESOURCE_EXHAUSTED" and "job_id" in text, text
        assert c.Checkpoints.List(c.checkpoints.ListCheckpointsRequest(job_id=job)).checkpoints
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
