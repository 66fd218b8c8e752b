"""Debian's python3-grpcio against brrd, from the .proto files alone: stubs of every service on one channel."""
import glob
import importlib
import os
import sys

import grpc
from grpc_tools import protoc

from daemon import SOURCE


def compile_protos(directory):
    root = f"{SOURCE}/proto"
    files = glob.glob(f"{root}/**/*.proto", recursive=True)
    assert protoc.main(["protoc", f"-I{root}", f"--python_out={directory}", f"--grpc_python_out={directory}", *files]) == 0
    sys.path.insert(0, directory)


class Stock:
    """endpoint: an address, or a channel; messages as .jobs, .stream, .checkpoints, .admin, .burst; stubs by service name."""

    def __init__(self, endpoint, directory):
        os.makedirs(directory, exist_ok=True)
        compile_protos(directory)
        # A pool of its own: a channel to a daemon that was restarted must not begin with the dead connection of an earlier channel.
        self.channel = grpc.insecure_channel(endpoint, [("grpc.use_local_subchannel_pool", 1)]) if isinstance(endpoint, str) else endpoint
        for module, services in (("jobs", ["Jobs"]), ("stream", ["Stream"]), ("checkpoints", ["Checkpoints", "Models"]), ("admin", ["Admin", "Metrics"]), ("burst", ["Burst"])):
            setattr(self, module, importlib.import_module(f"brr.v1.{module}_pb2"))
            stubs = importlib.import_module(f"brr.v1.{module}_pb2_grpc")
            for name in services:
                setattr(self, name, getattr(stubs, f"{name}Stub")(self.channel))
        self.common = importlib.import_module("brr.v1.common_pb2")

    def refused(self, call, *args):
        """The ErrorDetail, status code and text of a call that must fail."""
        try:
            answer = call(*args)
            if hasattr(answer, "__next__"):
                list(answer)
        except grpc.RpcError as e:
            packed = dict(e.trailing_metadata() or ()).get("brr-error-bin", b"")
            return self.common.ErrorDetail.FromString(packed), e.code().name, e.details()
        raise AssertionError("the call was not refused")
