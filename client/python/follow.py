#!/usr/bin/env python3
"""Follows a live stream of the daemon (Debian: python3-grpcio, python3-protobuf): alarms and events as they come, one line each.

    BRR_ENDPOINT=unix:/run/brrd/brrd.sock ./follow.py [SESSION]

SESSION: its id, or the first characters of it; without it the first open stream."""
import sys

from brrd_messages import SessionsStub, sessions_pb2
from stream import RESULT_HZ, connect


def follow(stub, session):
    """(time in seconds, what, value) of each alarm and event."""
    for update in stub.Observe(sessions_pb2.ObserveSessionRequest(session_id=session)):
        if update.HasField("alarm"):
            yield update.alarm.sample / RESULT_HZ, "alarm on" if update.alarm.on else "alarm off", update.alarm.probability
        elif update.HasField("result"):
            for e in update.result.events:
                yield e.first_sample / RESULT_HZ, f"seizure of {(e.end_sample - e.first_sample) / RESULT_HZ:.2f} s", e.confidence


def main():
    with connect() as channel:
        stub = SessionsStub(channel)
        open_streams = stub.List(sessions_pb2.ListSessionsRequest()).sessions
        session = sys.argv[1] if len(sys.argv) > 1 else open_streams[0].session_id if open_streams else sys.exit("no stream is open")
        for at, what, value in follow(stub, session):
            print(f"{at:.2f}\t{what}\t{value:.3f}", flush=True)


if __name__ == "__main__":
    main()
