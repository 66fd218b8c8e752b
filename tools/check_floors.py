#!/usr/bin/env python3
"""Check that every #include keeps to the floors of docs/architecture.md, and that each third-party part stays behind its wall."""
import os
import re
import subprocess
import sys

# Folder of a file -> folders it may include (its own is always allowed).
LIB = ["base", "lib/store", "lib/data", "lib/nn", "lib/model", "lib/infer", "lib/report", "lib/run", "kernels"]
FLOORS = {
    "base": [],
    "lib/store": ["base"],
    "lib/trust": ["base"],
    "kernels": ["base"],
    "kernels/cpu": ["base", "kernels"],
    "kernels/cuda": ["base", "kernels"],
    "lib/data": ["base", "lib/store"],
    "lib/nn": ["base", "lib/store", "kernels"],
    "lib/model": ["base", "kernels", "lib/nn"],
    "lib/infer": ["base", "lib/store", "kernels", "lib/data", "lib/nn", "lib/model"],
    "lib/report": ["base", "lib/model"],
    "lib/run": LIB,
    "daemon/device": ["base", "kernels"],
    "daemon/db": ["base"],
    "daemon/live": LIB,
    "daemon/models": LIB + ["daemon/db", "daemon/live"],
    "daemon/jobs": LIB + ["daemon/db", "daemon/live", "daemon/models"],
    "daemon/rpc": LIB + ["lib/trust", "daemon/device", "daemon/db", "daemon/live", "daemon/models", "daemon/jobs", "proto"],
    "daemon": LIB + ["lib/trust", "daemon/device", "daemon/db", "daemon/live", "daemon/models", "daemon/jobs", "daemon/rpc", "proto"],
    "client": ["base", "proto"],
    "client/brrctl": ["client", "base", "lib/store", "lib/data", "lib/infer", "lib/report", "lib/run", "lib/model", "lib/trust", "proto"],
    "client/examples": ["client"],
}
# Narrower than a folder: lib/nn and brrctl may use these of lib/store.
NN_STORE = {"store/safetensors.h", "store/digest.h"}
BRRCTL_STORE = NN_STORE | {"store/store.h", "store/store_options.h"}
# Header prefix -> files (or folders ending in /) that may include it.
WALLS = {
    "jansson.h": ["base/json.c"],
    "yaml.h": ["base/yaml.c"],
    "uv.h": ["daemon/"],
    "grpc/": ["daemon/rpc/rpc.c", "daemon/rpc/doors.c", "daemon/rpc/tls.c", "client/conn.c"],
    "sqlite3.h": ["daemon/db/db.c"],
    "microhttpd.h": ["daemon/http.c"],
    "systemd/": ["daemon/"],
    "openssl/": ["lib/store/", "lib/trust/"],
    "curl/": ["lib/store/"],
    "dnnl": ["kernels/cpu/"],
    "oneapi/": ["kernels/cpu/"],
    "omp.h": ["kernels/cpu/"],
    "cuda": ["kernels/cuda/"],
    "cudnn": ["kernels/cuda/"],
    "cublas": ["kernels/cuda/"],
    "protobuf-c/": ["daemon/rpc/", "client/"],
}
# Versions of libraries are shown by one file of the daemon.
VERSION_FILE = "daemon/versions.c"


def folder_of(path):
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if name in FLOORS:
            return name
    return None


def target_folder(include, path):
    """The project folder an include names, or None for a system header."""
    if include.startswith("brr/v1/") or include.endswith(".pb-c.h"):
        return "proto"
    for prefix in ("lib/", ""):
        candidate = prefix + include
        if os.path.exists(candidate):
            return folder_of(candidate)
    local = os.path.join(os.path.dirname(path), include)
    return folder_of(os.path.normpath(local)) if os.path.exists(local) else None


def check(path):
    folder = folder_of(path)
    if folder is None:
        return
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        include = found.group(2)
        for prefix, allowed in WALLS.items():
            if include.startswith(prefix) and found.group(1) == "<" and path != VERSION_FILE:
                if not any(path == a or (a.endswith("/") and path.startswith(a)) for a in allowed):
                    yield f"{path}:{number}: <{include}> stays behind {', '.join(allowed)}"
        target = target_folder(include, path)
        if found.group(1) == "<" or target is None or target == folder:
            continue
        if target not in FLOORS[folder]:
            yield f"{path}:{number}: {folder} must not include {target} ({include})"
        narrow = {"lib/nn": NN_STORE, "client/brrctl": BRRCTL_STORE}.get(folder)
        if narrow and target == "lib/store" and include not in narrow:
            yield f"{path}:{number}: {folder} may use only {', '.join(sorted(narrow))} of lib/store"
        if include.startswith("tests/"):
            yield f"{path}:{number}: nothing includes tests"


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.cu", "*.cuh"], capture_output=True, text=True, check=True).stdout.split()
    problems = [p for f in files if os.path.exists(f) for p in check(f)]
    print("\n".join(problems) or f"floors: {len(files)} files keep to them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
