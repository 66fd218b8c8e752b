"""The typed messages of brrd, which its build generates beside this file when it is installed (share/brrd/python), or into build/python of a
clone; BRR_PYTHON names another folder. Services are called by name, so that no generated stubs of them are needed."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = [os.environ.get("BRR_PYTHON", ""), HERE, f"{HERE}/../../build/python"]
sys.path[:0] = [p for p in PLACES if os.path.exists(f"{p}/brr/v1/stream_pb2.py")][:1]
sys.path.append(f"{HERE}/../examples")
try:
    from brr.v1 import common_pb2, sessions_pb2, stream_pb2
except ImportError:
    sys.exit("brrd's Python messages are missing: build brrd, or set BRR_PYTHON to the folder that has brr/v1/stream_pb2.py")


class StreamStub:
    """brr.v1.Stream."""

    def __init__(self, channel):
        self.Run = channel.stream_stream("/brr.v1.Stream/Run", request_serializer=stream_pb2.ClientMessage.SerializeToString,
                                         response_deserializer=stream_pb2.ServerMessage.FromString)


class SessionsStub:
    """brr.v1.Sessions."""

    def __init__(self, channel):
        self.List = channel.unary_unary("/brr.v1.Sessions/List", request_serializer=sessions_pb2.ListSessionsRequest.SerializeToString,
                                        response_deserializer=sessions_pb2.ListSessionsResponse.FromString)
        self.Observe = channel.unary_stream("/brr.v1.Sessions/Observe", request_serializer=sessions_pb2.ObserveSessionRequest.SerializeToString,
                                            response_deserializer=sessions_pb2.SessionUpdate.FromString)
