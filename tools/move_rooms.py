#!/usr/bin/env python3
"""Move the files of lib/ into rooms by workload and rewrite every path that names them: includes, header guards, CMake files, tools,
tests and docs. Idempotent: what lies in its room already stays. Run it on a branch that was made before the move, then rebase."""
import fnmatch
import os
import re
import subprocess

# Room -> patterns of the files (below lib/, without ending) that move there. The first match wins, in this order.
ROOMS = {
    "nn": ["run/selftest"],
    "burst": ["run/selftest_tick", "model/burst*", "model/connectome*", "model/wiring", "infer/netfile", "infer/spikefile", "run/burst_*", "report/raster"],
    "geodesic": ["model/geodesic*", "model/ode", "model/interpolate", "run/geodesic_*", "data/spectra", "report/spectrum_score"],
    "kinds": ["run/kinds", "run/works"],
    "eeg": ["data/edf*", "data/tal", "data/events*", "data/labels*", "data/channels", "data/montage*", "data/dsp*", "data/frontend", "data/half", "data/bids*", "data/feature", "data/history", "data/npy", "data/table", "infer/quality"],
    "windows": ["data/*"],
    "detect": ["model/*", "infer/*", "run/detect_list"],
    "score": ["report/score*", "report/alarm_sweep", "report/interval"],
    "plot": ["report/*"],
    "work": ["run/kind", "run/jobfile", "run/job_data", "run/job_source", "run/task", "run/estimate", "run/progress", "run/series"],
    "train": ["run/*"],
}
OLD = ("data", "infer", "model", "report", "run")
TEXTS = ("*.c", "*.h", "*.cu", "*.cuh", "*.cc", "*.py", "*.sh", "*.cmake", "CMakeLists.txt", "*.md", "*.def", "*.svg", "dev", "*.proto", "*.yaml", "Dockerfile")


def room_of(stem):
    for room, patterns in ROOMS.items():
        if any(fnmatch.fnmatchcase(stem, pattern) for pattern in patterns):
            return room
    return None


def tracked(*patterns):
    return subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True).stdout.split()


def moves():
    """Path below lib/ -> its new path, of the files that are still in an old room."""
    found = {}
    for path in tracked(*(f"lib/{old}/*" for old in OLD)):
        path = path[len("lib/"):]
        found[path] = f"{room_of(os.path.splitext(path)[0])}/{os.path.basename(path)}"
    return found


def guard(path):
    return "BRR_" + re.sub(r"\W", "_", path).upper()


def known():
    """The moves, and those of files that have moved already, by their old path: for text that still names it."""
    table = moves()
    for room in ROOMS:
        for path in tracked(f"lib/{room}/*"):
            name = os.path.basename(path)
            for old in OLD:
                if room_of(f"{old}/{os.path.splitext(name)[0]}") == room:
                    table.setdefault(f"{old}/{name}", f"{room}/{name}")
    return table


def rewrite(table):
    stems = {os.path.splitext(old)[0]: os.path.splitext(new)[0] for old, new in table.items()}
    path_re = re.compile(r"(?<![\w./-])((?:lib/)?)((?:%s)/\w+)((?:\.(?:c|h|def))?)(?![\w/])(?!\.\w)" % "|".join(OLD))
    guards = {guard(old): guard(new) for old, new in table.items() if old.endswith(".h")}

    def replace(match):
        prefix, stem, ending = match.groups()
        return f"{prefix}{stems[stem]}{ending}" if stem in stems else match.group(0)

    for path in tracked(*TEXTS):
        if path == "tools/move_rooms.py" or not os.path.isfile(path):
            continue
        text = open(path, encoding="utf-8").read()
        new = path_re.sub(replace, text)
        if path.endswith(".h"):
            new = re.sub(r"\bBRR_(?:DATA|INFER|MODEL|REPORT|RUN)_\w+_H\b", lambda m: guards.get(m.group(0), m.group(0)), new)
        if new != text:
            open(path, "w", encoding="utf-8").write(new)


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    table = moves()
    for old, new in sorted(table.items()):
        os.makedirs(f"lib/{os.path.dirname(new)}", exist_ok=True)
        subprocess.run(["git", "mv", f"lib/{old}", f"lib/{new}"], check=True)
    rewrite(known())
    sources = tracked("*.c", "*.h", "*.cu", "*.cuh", "*.cc")
    subprocess.run(["clang-format", "-i", *[path for path in sources if os.path.isfile(path)]], check=True)  # the order of includes
    print(f"moved {len(table)} files")


if __name__ == "__main__":
    main()
