"""The typed messages of brrd and the stubs of its services, which its build generates beside this file when it is installed (share/brrd/python), or
into build/python of a clone; BRR_PYTHON names another folder."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = [os.environ.get("BRR_PYTHON", ""), HERE, f"{HERE}/../../build/python"]
sys.path[:0] = [p for p in PLACES if os.path.exists(f"{p}/brr/v1/stream_pb2_grpc.py")][:1]
sys.path.append(f"{HERE}/../examples")
try:
    from brr.v1 import common_pb2, sessions_pb2, stream_pb2
    from brr.v1.sessions_pb2_grpc import SessionsStub
    from brr.v1.stream_pb2_grpc import StreamStub
except ImportError as e:
    sys.exit(f"brrd's Python messages are missing ({e}): build brrd, install python3-grpcio, or set BRR_PYTHON to the folder that has brr/v1/stream_pb2_grpc.py")
