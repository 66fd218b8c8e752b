#!/usr/bin/env python3
"""Heads of recordings carry no checksum. One that arrives damaged is noticed when the whole file is there: a training whose plan holds
goes on, another one ends in words or begins again by itself; nobody has to clear anything."""
import os
import sys

from daemon import MINI, Daemon, make_corpus, temporary, tensors
from fake_s3 import FakeS3
from test_store_arrival import recordings, upload

SETS = MINI + ["training.max_steps=12", "training.validate_every=12", "model.dropout=0.1"]
DURATION, PATIENT, LABEL = slice(244, 252), slice(8, 16), slice(256, 272)


def changed(field, text):
    return lambda head: head[:field.start] + text.ljust(field.stop - field.start).encode() + head[field.stop:]


def heads(s3, prefix):
    return [r for r in s3.requests if r[0] == "GET" and r[1].startswith(prefix + "/") and r[3] == "bytes=0-16383"]


def run(d, prefix, *sets):
    code, end, err = d.submit(*SETS, f"data.source=store://bucket/{prefix}", *sets)
    assert end, err
    return end, d.ctl("logs", end["job"])[1]


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/eeg", seed=5, patients=4, hours=0.03)
        for prefix in ("harmless", "unreadable", "other", "again", "kept"):
            upload(s3, f"{tmp}/eeg", prefix)
        os.environ.update(s3.environment())
        d = Daemon(tmp, [f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}'}}}}"]).start()
        code, local, err = d.submit(*SETS, f"data.source=file://{tmp}/eeg")
        assert code == 0, err
        want = tensors(local["checkpoint"])

        # a name in the header, or the header of a montage that cannot be: the plan is that of the whole file
        for prefix, damage in (("harmless", changed(PATIENT, "nobody")), ("unreadable", changed(LABEL, "EEG Xy1-REF"))):
            for key in recordings(s3, prefix):
                s3.damage[key] = damage
            end, log = run(d, prefix, "limits.restarts=0")
            assert end["state"] == "succeeded" and tensors(end["checkpoint"]) == want, (prefix, end, log)
            s3.damage.clear()
            s3.requests.clear()
            end, log = run(d, prefix, "limits.restarts=0")
            assert end["state"] == "succeeded" and tensors(end["checkpoint"]) == want, (prefix, end, log)
            assert not heads(s3, prefix), "the heads in the cache are right now"

        # records that seem twice as long: another plan
        for key in recordings(s3, "other"):
            s3.damage[key] = changed(DURATION, "2")
        end, log = run(d, "other", "limits.restarts=0")
        assert end["state"] == "failed" and "a header that arrived damaged has been replaced" in end["reason"] and "submit the job again" in end["reason"], end
        assert any(os.path.basename(key) in end["reason"] for key in recordings(s3, "other")), end
        s3.damage.clear()
        for _ in range(1 + len(recordings(s3, "other"))):  # each attempt meets one of them at least
            end, log = run(d, "other", "limits.restarts=0")
            if end["state"] == "succeeded":
                break
        assert end["state"] == "succeeded" and tensors(end["checkpoint"]) == want, (end, log)

        s3.damage[recordings(s3, "again")[1]] = changed(DURATION, "2")
        end, log = run(d, "again", "limits.restarts=1")
        assert end["state"] == "succeeded" and tensors(end["checkpoint"]) == want, (end, log)
        assert log.count("has been replaced") == 1, "it has begun again by itself: " + log

        # the recording was decoded before, its head went and came back damaged: what was decoded decides
        end, log = run(d, "kept", "limits.restarts=0")
        assert end["state"] == "succeeded", end
        assert d.stop() == 0
        for root, _, names in os.walk(f"{tmp}/cache/objects/entries"):
            for name in names:
                os.remove(os.path.join(root, name))
        for key in recordings(s3, "kept"):
            s3.damage[key] = changed(DURATION, "2")
        s3.requests.clear()
        d.start()
        end, log = run(d, "kept", "limits.restarts=0")
        assert heads(s3, "kept") and end["state"] == "succeeded" and tensors(end["checkpoint"]) == want, (end, log)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
