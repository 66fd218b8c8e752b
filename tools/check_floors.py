#!/usr/bin/env python3
"""Check that every #include keeps to the floors of docs/architecture.md, that each third-party part stays behind its wall, and that no
files call each other in a circle through their headers (X.c and X.h count as one module)."""
import os
import re
import subprocess
import sys

# Folder of a file -> folders it may include (its own is always allowed).
LIB = ["base", "kernels"] + [f"lib/{room}" for room in ("store", "nn", "formats", "eeg", "windows", "detect", "score", "plot", "work", "evaluate", "train", "burst", "geodesic", "kinds")]
FLOORS = {
    "base": [],
    "proto": ["base"],
    "lib/store": ["base"],
    "lib/trust": ["base"],
    "lib/post": ["base"],
    "kernels": ["base"],
    "kernels/cpu": ["base", "kernels"],
    "kernels/cuda": ["base", "kernels"],
    "kernels/cuda/scan": ["base", "kernels", "kernels/cuda"],
    "lib/nn": ["base", "kernels", "lib/store"],
    "lib/plot": ["base"],
    "lib/formats": ["base"],
    "lib/eeg": ["base", "lib/store", "lib/formats"],
    "lib/windows": ["base", "lib/store", "lib/formats", "lib/eeg"],
    "lib/detect": ["base", "kernels", "lib/store", "lib/nn", "lib/formats", "lib/eeg", "lib/windows"],
    "lib/score": ["base", "lib/detect"],
    "lib/work": ["base", "kernels", "lib/store", "lib/formats", "lib/eeg", "lib/windows"],
    "lib/evaluate": ["base", "kernels", "lib/store", "lib/nn", "lib/formats", "lib/eeg", "lib/windows", "lib/detect", "lib/score", "lib/plot", "lib/work"],
    "lib/train": ["base", "kernels", "lib/store", "lib/nn", "lib/formats", "lib/eeg", "lib/windows", "lib/detect", "lib/score", "lib/plot", "lib/work", "lib/evaluate"],
    "lib/burst": ["base", "kernels", "lib/store", "lib/formats", "lib/eeg", "lib/windows", "lib/plot", "lib/work"],
    "lib/geodesic": ["base", "kernels", "lib/store", "lib/nn", "lib/formats", "lib/plot", "lib/work"],
    "lib/kinds": ["lib/work"],
    "daemon/device": ["base", "kernels"],
    "daemon/db": ["base"],
    "daemon/backup": LIB,
    "daemon/journal": ["base", "lib/store", "daemon/db"],
    "daemon/alarms": ["base", "daemon/journal"],
    "daemon/hooks": ["base", "lib/post", "daemon/journal", "daemon/alarms"],
    "daemon/hosts": ["base", "kernels"],
    "daemon/viewer": LIB,
    "daemon/live": LIB + ["daemon/viewer", "daemon/journal", "daemon/hosts"],
    "daemon/burst": LIB + ["daemon/hosts"],
    "daemon/models": LIB + ["daemon/db", "daemon/live"],
    "daemon/jobs": LIB + ["daemon/db", "daemon/hosts", "daemon/models"],
    "daemon/status": LIB + ["proto", "daemon/viewer", "daemon/device", "daemon/db", "daemon/journal", "daemon/alarms", "daemon/hooks", "daemon/live", "daemon/burst", "daemon/hosts", "daemon/models", "daemon/jobs"],
    "daemon/page": LIB + ["proto", "daemon/viewer", "lib/trust", "daemon/db", "daemon/journal", "daemon/alarms", "daemon/jobs", "daemon/status"],
    "daemon/rpc": ["base", "lib/store", "lib/trust", "daemon/live", "proto"],
    "daemon/services": LIB + ["daemon/viewer", "lib/trust", "daemon/backup", "daemon/device", "daemon/db", "daemon/journal", "daemon/alarms", "daemon/hooks", "daemon/live", "daemon/burst", "daemon/hosts", "daemon/models", "daemon/jobs", "daemon/status", "daemon/rpc", "proto"],
    "daemon/http": LIB + ["proto", "daemon/viewer", "lib/trust", "daemon/device", "daemon/db", "daemon/journal", "daemon/alarms", "daemon/live", "daemon/hosts", "daemon/models", "daemon/jobs", "daemon/rpc", "daemon/status", "daemon/page"],
    "daemon": LIB + ["daemon/viewer", "lib/trust", "lib/post", "daemon/backup", "daemon/device", "daemon/db", "daemon/journal", "daemon/alarms", "daemon/hooks", "daemon/live", "daemon/burst", "daemon/hosts", "daemon/models", "daemon/jobs", "daemon/rpc", "daemon/services", "daemon/status", "daemon/page", "daemon/http", "proto"],
    "client": ["base", "lib/trust", "proto"],
    "client/brrctl": ["client", "lib/trust", "proto"] + [room for room in LIB if room not in ("kernels", "lib/nn", "lib/kinds")],
    "client/examples": ["client", "client/scan"],
    "client/scan": ["base", "kernels"],
    "client/burst": ["base", "kernels", "lib/burst"],
    "client/detector": ["base", "kernels", "lib/detect", "lib/eeg", "lib/formats", "lib/windows"],
}
# The rooms of brrctl: each may use what its commands share, and one the files of another where it says so.
BRRCTL = {"jobs": [], "detect": [], "report": ["jobs", "detect"], "burst": [], "geodesic": [], "lsl": ["detect"], "admin": []}
FLOORS |= {f"client/brrctl/{room}": FLOORS["client/brrctl"] + ["client/brrctl"] + [f"client/brrctl/{other}" for other in others] for room, others in BRRCTL.items()}
# Narrower than a folder: (folder, folder it may include) -> the only headers that it may include there.
NARROW = {
    ("lib/nn", "lib/store"): {"store/safetensors.h", "store/digest.h"},
    ("lib/burst", "lib/windows"): {"windows/recording.h", "windows/window.h"},  # of the encoder, which makes injections of EEG
    ("lib/burst", "lib/eeg"): {"eeg/half.h"},
    ("lib/burst", "lib/plot"): {"plot/svg.h"},
    ("lib/geodesic", "lib/formats"): {"formats/table.h"},
    ("lib/geodesic", "lib/plot"): {"plot/plot_panels.h"},
    ("lib/geodesic", "lib/nn"): {"nn/replay.h"},
    ("daemon/rpc", "daemon/live"): {"daemon/live/session.h"},  # how many of the sessions one caller may have
}
NARROW |= {(f"client/brrctl/{room}", "lib/store"): {"store/safetensors.h", "store/digest.h", "store/outputs.h", "store/store.h", "store/store_options.h"} for room in BRRCTL}
# Tables that a header declares and a file above it defines, because their rows come from all rooms: name -> the file of its definition.
TABLES = {
    "task_kinds": "lib/kinds/kinds.c",
    "task_kind_count": "lib/kinds/kinds.c",
    "task_works": "lib/kinds/works.c",
}
# Header prefix -> files (or folders ending in /) that may include it.
WALLS = {
    "jansson.h": ["base/json.c"],
    "yaml.h": ["base/yaml.c"],
    "uv.h": ["daemon/"],
    "grpc/": ["daemon/rpc/rpc_state.h"] + [f"daemon/rpc/rpc_{part}.c" for part in ("admission", "answers", "call", "events", "server")] + ["daemon/rpc/errands.c", "daemon/rpc/listeners.c", "daemon/rpc/tls.c", "daemon/rpc/peer.c", "client/conn.c"],
    "sqlite3.h": ["daemon/db/db.c"],
    "microhttpd.h": ["daemon/http/"],
    "systemd/": ["daemon/"],
    "openssl/": ["lib/store/", "lib/trust/", "lib/post/"],
    "curl/": ["lib/store/", "lib/post/"],
    "zlib.h": ["lib/formats/mat5.c"],
    "dnnl": ["kernels/cpu/"],
    "oneapi/": ["kernels/cpu/"],
    "omp.h": ["kernels/cpu/"],
    "mpi.h": ["base/mpi/mpi.c"],
    "cuda": ["kernels/cuda/"],
    "cudnn": ["kernels/cuda/"],
    "cublas": ["kernels/cuda/"],
    "protobuf-c/": ["proto/", "daemon/http/", "daemon/rpc/", "daemon/services/", "client/"],
}
# Versions of libraries are shown by one file of the daemon.
VERSION_FILE = "daemon/versions.c"


def folder_of(path):
    parts = path.split("/")
    for depth in (3, 2, 1):
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
        narrow = NARROW.get((folder, target))
        if narrow and include not in narrow:
            yield f"{path}:{number}: {folder} may use only {', '.join(sorted(narrow))} of {target}"
        if include.startswith("tests/"):
            yield f"{path}:{number}: nothing includes tests"


def module_of(path):
    return os.path.splitext(path)[0]


def resolve(include, path):
    """The project file that a quoted include names, or None."""
    for candidate in (include, f"lib/{include}", os.path.normpath(os.path.join(os.path.dirname(path), include))):
        if os.path.isfile(candidate):
            return candidate
    return None


def code_of(path):
    """A file's text without comments and strings."""
    text = re.sub(r"/\*.*?\*/", " ", open(path, encoding="utf-8").read(), flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


DECLARATION = re.compile(r"^(?!static\b)[A-Za-z_][\w \t*]*?[ *]\w+\((?:[^;{}()]|\([^()]*\))*\)[^;{}]*;", re.M)
CALL = re.compile(r"(?<!struct )(?<!enum )\b([a-z]\w+)\(")
DEFINITION = re.compile(r"^(?!static\b)[A-Za-z_][\w \t*]*?[ *](\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*\{", re.M)


def uses(files):
    """Module -> modules that it calls through headers, each with the line that includes one. A module that is split over files is no
    exception: its files call each other in one direction too. Types alone are no use: an inner header may speak of its module's public
    types."""
    text = {path: code_of(path) for path in files}
    called, declared, owners, graph = {}, {}, {}, {}
    for path in files:
        called.setdefault(module_of(path), set()).update(CALL.findall(DECLARATION.sub("", text[path])))
        if path.endswith((".h", ".cuh")):
            declared[path] = set(CALL.findall(text[path]))
        for name in DEFINITION.findall(text[path]):
            owners.setdefault(name, set()).add(module_of(path))
    for path in files:
        module = module_of(path)
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            target = found and resolve(found.group(1), path)
            for name in called[module] & declared.get(target, set()) if target else ():
                owner = owners.get(name, set())
                to = next(iter(owner)) if len(owner) == 1 else module_of(target)
                if to.startswith("tests/") > module.startswith("tests/"):  # a test that takes the place of a function of the C library
                    continue
                if owner and to != module and module not in owner:  # without an owner: a macro, or a function that the header defines
                    graph.setdefault(module, {}).setdefault(to, f"{path}:{number}")
    return graph


def find_cycle(graph):
    """A shortest circle of modules as a list of them, or None."""
    best = None
    for start in sorted(graph):
        before, queue = {start: None}, [start]
        for at in queue:
            if start in graph.get(at, {}):
                cycle = []
                while at:
                    cycle.insert(0, at)
                    at = before[at]
                best = cycle if not best or len(cycle) < len(best) else best
                break
            for to in graph.get(at, {}):
                if to not in before:
                    before[to] = at
                    queue.append(to)
    return best


def cycles(files):
    graph = uses(files)
    while cycle := find_cycle(graph):
        first, second = cycle[0], cycle[1 % len(cycle)]
        yield f"{graph[first][second]}: files call each other in a circle: {' -> '.join([*cycle, first])}"
        del graph[first][second]


EXTERN = re.compile(r"^extern (?:const )?[\w ]*?(?:\*const )?\**((?:\w+(?:\[\w*\])?(?:,\s*)?)+);", re.M)


def tables(files):
    """Data that a header declares and a file of another folder defines must be one of TABLES."""
    text = {path: code_of(path) for path in files}
    for header in (path for path in files if path.endswith(".h") and folder_of(path)):
        for names in EXTERN.findall(text[header]):
            for name in re.findall(r"\w+(?=\[|,|$)", names):
                definition = re.compile(r"^(?!extern|static)[\w \t*]*\b%s\b(?:\[\w*\])* =" % name, re.M)
                for path in (path for path in files if path.endswith(".c") and name in text[path] and definition.search(text[path])):
                    if folder_of(path) not in (folder_of(header), None) and TABLES.get(name) != path:
                        yield f"{path}: defines {name}, which {header} declares; tables above their header stand in TABLES"


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.cu", "*.cuh"], capture_output=True, text=True, check=True).stdout.split()
    files = [f for f in files if os.path.exists(f)]
    problems = [p for f in files for p in check(f)] + list(cycles(files)) + list(tables(files))
    print("\n".join(problems) or f"floors: {len(files)} files keep to them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
