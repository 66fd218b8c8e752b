#!/usr/bin/env python3
"""The stage runtime-cuda of the Dockerfile, read: every library that the build links or opens comes from a package that the stage installs,
from its base image, or with the driver, and the stage installs nothing else. The stage itself is built by nobody here: its base image comes
from NVIDIA's registry."""
import glob
import os
import re
import subprocess
import sys

SOURCE, BUILD = os.environ["BRR_SOURCE_DIR"], os.environ["BRR_BUILD_DIR"]
PROGRAMS = ("brrd", "brrctl", "brr-bench", "brr-load", "edfgen")  # those that client/install.cmake installs

# Library, without the version of its ABI: the package of Ubuntu 24.04 that has it.
PACKAGES = {
    "libuv": "libuv1t64", "libgrpc": "libgrpc29t64", "libgpr": "libgrpc29t64", "libprotobuf-c": "libprotobuf-c1", "libjansson": "libjansson4",
    "libyaml-0": "libyaml-0-2", "libcrypto": "libssl3t64", "libssl": "libssl3t64", "libcurl": "libcurl4t64", "libsqlite3": "libsqlite3-0",
    "libdnnl": "libdnnl3", "libmicrohttpd": "libmicrohttpd12t64", "libgomp": "libgomp1", "libz": "zlib1g",
}
# The packages of NVIDIA's repository that nvidia/cuda:MAJOR.MINOR.PATCH-cudnn-runtime-ubuntu24.04 has; {} is MAJOR-MINOR or MAJOR.
NVIDIA = {"libcublasLt": "libcublas-{minor}", "libnccl": "libnccl2", "libcudnn": "libcudnn9-cuda-{major}", "libnvrtc": "cuda-nvrtc-{minor}"}
DRIVER = {"libnvidia-ml"}  # mounted by NVIDIA's container toolkit
UBUNTU = {"libc", "libm", "libgcc_s", "libstdc++", "ld-linux-x86-64"}
OURS = {"libbrr", "libbrr_cuda", "libbrr_scan", "libbrr_detector", "libbrr_burst", "libbrr_mpi"}
ABSENT = {"libmpi": "the image runs single jobs, not ranks of mpirun", "librsvg-2": "pictures are SVG there", "liblsl": "brrctl lsl runs beside the amplifier",
          "liblsl64": "as liblsl"}
TOOLS = {"ca-certificates", "tini"}  # no libraries: certificates of stores, and process 1


def name_of(soname):
    return soname.split(".so")[0]


def linked():
    """(library, who links it) of what is installed."""
    files = [f"{BUILD}/bin/{p}" for p in PROGRAMS] + [f for f in glob.glob(f"{BUILD}/lib/*.so*") if not os.path.islink(f)]
    assert os.path.exists(files[0]), f"{files[0]} is missing: build the programs first"
    for path in filter(os.path.exists, files):
        text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        for soname in re.findall(r"\(NEEDED\).*\[(.+)\]", text):
            yield soname, os.path.relpath(path, BUILD)


def opened():
    """(library, file) of every name of a library in the product's sources."""
    for folder in ("base", "lib", "kernels", "daemon", "client"):
        for path in glob.glob(f"{SOURCE}/{folder}/**/*", recursive=True):
            if re.search(r"\.(c|h|cu|cuh|cc)$", path):
                with open(path, encoding="utf-8") as file:
                    for soname in re.findall(r'"(lib[\w+-]+\.so[.\d]*)"', file.read()):
                        yield soname, os.path.relpath(path, SOURCE)


def stage(name):
    """The base image of a stage and its commands."""
    with open(f"{SOURCE}/Dockerfile", encoding="utf-8") as file:
        found = re.search(rf"^FROM (\S+) AS {name}\n(.*?)(?=^FROM |\Z)", file.read(), re.M | re.S)
    assert found, f"the Dockerfile has no stage {name}"
    return found[1], re.sub(r"\\\n", " ", found[2])


def installed(commands):
    found = re.search(r"apt-get install -y --no-install-recommends ([^&\n]*)", commands)
    return set(found[1].split()) if found else set()


def check_libraries(packages):
    known = set(PACKAGES) | set(NVIDIA) | DRIVER | UBUNTU | OURS | set(ABSENT)
    uses = sorted(set(linked()) | set(opened()))
    unknown = [f"{who} needs {soname}" for soname, who in uses if name_of(soname) not in known]
    assert not unknown, f"{unknown}: add its package to the stage runtime-cuda of the Dockerfile and to PACKAGES here"
    used = {name_of(soname) for soname, _ in uses}
    missing = {library: PACKAGES[library] for library in used & set(PACKAGES) if PACKAGES[library] not in packages}
    assert not missing, f"the stage runtime-cuda installs no {missing}"
    needless = packages - TOOLS - {PACKAGES[library] for library in used if library in PACKAGES}
    assert not needless, f"the stage runtime-cuda installs {needless}, which nothing needs"
    return uses


def check_base(uses):
    """Compiled and run with one CUDA, that of the tag; the libraries of the build at hand have its major number."""
    tags = [re.fullmatch(r"nvidia/cuda:(\d+)\.(\d+)\.\d+-cudnn-(devel|runtime)-ubuntu24\.04", stage(name)[0]) for name in ("build-cuda", "runtime-cuda")]
    assert all(tags) and [t[3] for t in tags] == ["devel", "runtime"] and tags[0].groups()[:2] == tags[1].groups()[:2], [stage("build-cuda")[0], stage("runtime-cuda")[0]]
    major = tags[0][1]
    blas = {soname for soname, _ in uses if name_of(soname) == "libcublasLt"}
    assert blas <= {f"libcublasLt.so.{major}"}, f"the build links {blas}; the image has CUDA {major}"
    with_it = ", ".join(p.format(major=major, minor=f"{major}-{tags[0][2]}") for p in NVIDIA.values())
    print(f"expected in the base image: {with_it}; {'linked with ' + blas.pop() if blas else 'this build has no CUDA backend'}; the stage was not built")


def main():
    _, commands = stage("build-cuda")
    assert "-DBRR_CUDA=ON" in commands, "the stage build-cuda may leave the CUDA backend out"
    check_base(check_libraries(installed(stage("runtime-cuda")[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
