#!/usr/bin/env python3
"""The stages of the Dockerfile, read: all are Debian 12 and install brrd's own packages, whose dependencies dpkg-shlibdeps found; what libbrr_cuda.so
links and what the sources open by name is copied from the image CUDA, comes with the driver, or is left out for a reason. One CUDA compiles and
runs. test_image.py and test_image_cuda.py build the stages."""
import glob
import os
import re
import subprocess
import sys

SOURCE, BUILD = os.environ["BRR_SOURCE_DIR"], os.environ["BRR_BUILD_DIR"]
DRIVER = {"libnvidia-ml"}  # mounted by NVIDIA's container toolkit
SYSTEM = {"libc", "libm", "libgcc_s", "libstdc++", "ld-linux-x86-64"}
OURS = {"libbrr_cuda", "libbrr_mpi"}
ABSENT = {"librsvg-2": "pictures are SVG there", "liblsl": "brrctl lsl runs beside the amplifier", "liblsl64": "as liblsl"}


def text(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as file:
        return file.read()


DOCKERFILE = re.sub(r"\\\n", " ", text("Dockerfile"))


def stage(name):
    """The base image of a stage and its commands."""
    found = re.search(rf"^FROM (\S+) AS {name}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert found, f"the Dockerfile has no stage {name}"
    return found[1], found[2]


def linked():
    """What the CUDA backend of this build links; nothing where it was not built."""
    path = f"{BUILD}/lib/libbrr_cuda.so"
    if not os.path.exists(path):
        return set()
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout))


def opened():
    """The library of every name in the product's sources."""
    for folder in ("base", "lib", "kernels", "daemon", "client"):
        for path in glob.glob(f"{SOURCE}/{folder}/**/*", recursive=True):
            if re.search(r"\.(c|h|cu|cuh|cc)$", path):
                yield from re.findall(r'"(lib[\w+-]+\.so[.\d]*)"', text(os.path.relpath(path, SOURCE)))


def main():
    bases = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", DOCKERFILE, re.M)
    stages = {name for _, name in bases if name}
    assert all(base in stages | {"debian:12", "debian:12-slim", "scratch"} or base.startswith("${") for base, _ in bases), bases
    copied = {name.rstrip("*").rstrip(".") for name in re.findall(r"/(lib[\w+-]+)\*?\.so", stage("runtime-cuda")[1])}
    used = {soname.split(".so")[0] for soname in [*linked(), *opened()]}
    lost = used - copied - DRIVER - SYSTEM - OURS - set(ABSENT)
    assert not lost and {"libcublasLt", "libcudnn", "libnccl"} == copied, f"the stage runtime-cuda copies {copied}; {lost} is missing there and here"
    assert stage("runtime-cuda")[0] == "runtime" and "from=build-cuda" in stage("runtime-cuda")[1] and "USER 900:900" in stage("runtime-cuda")[1]
    assert re.search(r"^set\(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON\)", text("deploy/debian/packages.cmake"), re.M)
    default, given = re.search(r"^ARG CUDA=(\S+)$", DOCKERFILE, re.M)[1], re.search(r"^FROM \$\{CUDA:-(\S+)\} AS cuda$", DOCKERFILE, re.M)[1]
    version = re.fullmatch(r"nvidia/cuda:(\d+)\.(\d+)\.\d+-cudnn-devel-ubuntu24\.04", default)
    assert default == given and version, (default, given)
    assert set(re.findall(r"/usr/local/cuda-([\d.]+)", DOCKERFILE)) == {f"{version[1]}.{version[2]}"}
    assert "-DBRR_CUDA=ON" in stage("build-cuda")[1], "the stage build-cuda may leave the CUDA backend out"
    blas = {soname for soname in linked() if soname.startswith("libcublasLt")}
    assert blas <= {f"libcublasLt.so.{version[1]}"}, f"the build links {blas}; the image has CUDA {version[1]}"
    print(f"copied from the image CUDA: {', '.join(sorted(copied))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
