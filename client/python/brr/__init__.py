"""brrd in Python: recordings of all formats (brr.read), detectors (brr.Detector) and its scans (brr.scan for NumPy, CuPy and every array with DLPack, brr.torch for PyTorch) in this
process, and a running daemon (brr.connect). Needs no compiler: the C libraries are loaded by ctypes. docs/scan.md says how it is installed. The protobuf messages of the daemon's RPC,
brr.v1, may lie in another folder of sys.path."""
from pkgutil import extend_path

from ._library import Error

__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"
__all__ = ["Detector", "Error", "connect", "read", "scan"]


def __getattr__(name):
    import importlib
    if name == "Detector":
        return importlib.import_module("brr.detector").Detector
    if name == "connect":
        return importlib.import_module("brr.client").connect
    if name == "read":
        return importlib.import_module("brr.recording").read
    if name in ("client", "detector", "events", "onnx", "recording", "scan", "torch"):
        return importlib.import_module(f"brr.{name}")
    raise AttributeError(f"module 'brr' has no attribute '{name}'")
