"""brrd in Python: its scans in this process (brr.scan for NumPy, CuPy and every array with DLPack, brr.torch for PyTorch). Needs no compiler:
the C libraries are loaded by ctypes. docs/scan.md says how it is installed. The protobuf messages of the daemon's RPC, brr.v1, may lie in another
folder of sys.path."""
from pkgutil import extend_path

from ._library import Error

__path__ = extend_path(__path__, __name__)
__all__ = ["Error", "scan"]


def __getattr__(name):
    if name in ("scan", "torch"):
        import importlib
        return importlib.import_module(f"brr.{name}")
    raise AttributeError(f"module 'brr' has no attribute '{name}'")
