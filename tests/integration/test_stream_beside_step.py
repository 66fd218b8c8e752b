#!/usr/bin/env python3
"""A live window waits for one op of a job's step, never for the whole step: a client that sends its next second of EEG when it has
the answer to the last one gets many answers within one long step."""
import queue
import sys

import numpy

from daemon import PATIENCE
from stock import Stock
from stream_fixture import RATE, endpoint, streaming_daemon

LABELS = ["Fp1", "F3", "C3", "P3", "F7", "T3", "T5", "O1", "Fz", "Cz", "Pz", "Fp2", "F4", "C4", "P4", "F8", "T4", "T6", "O2"]
ANSWERS, STEPS = 30, 6


def ping_pong(c, model, n):
    """Sends a second, waits for its alarm window, n times."""
    noise = (numpy.random.default_rng(5).standard_normal((len(LABELS), RATE)) * 20).astype("<f4").tobytes()
    turns = queue.Queue()

    def messages():
        yield c.stream.ClientMessage(open=c.stream.Open(model=model, channels=LABELS, rate_hz=RATE, realtime=True, alarm_hop_s=1,
                                                        format=c.stream.SAMPLE_FORMAT_F32_UV))
        for i in range(n):
            yield c.stream.ClientMessage(chunk=c.stream.Chunk(first_sample=i * RATE, samples=RATE, data=noise))
            assert turns.get(timeout=PATIENCE) == i

    answers = 0
    for m in c.Stream.Run(messages()):
        if m.HasField("provisional"):
            turns.put(answers)
            answers += 1
    return answers


def main():
    with streaming_daemon() as (d, recording, model):
        code, end, err = d.submit(f"data.source=file://{d.dir}/eeg", "data.validation_fraction=0", "training.max_steps=100000",
                                  "training.micro_batch_size=16", watch=False)
        assert code == 0, err
        d.wait(end["job"], lambda job: job["state"] == "running" and job["step"] > 0)
        c = Stock(endpoint(d), f"{d.dir}/stubs")
        before = d.job(end["job"])["step"]
        answers = ping_pong(c, model, ANSWERS)
        steps = d.job(end["job"])["step"] - before
        assert answers >= ANSWERS and steps <= STEPS, f"{answers} answers took {steps} steps of the job"
        d.wait(end["job"], lambda job: job["step"] > before + steps)  # and the job goes on
        c.channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
