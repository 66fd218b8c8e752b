#!/usr/bin/env python3
"""The stages build-cuda and runtime-cuda of the Dockerfile, from the sources: the toolkit comes from an image that is
made of the CUDA that is installed here, laid out as NVIDIA's is. In the image all libraries resolve, brrd starts without
a driver and says that one is missing, and serves a stream from an emulated GPU. It compiles the kernels in a container
(20 minutes on two cores), so it runs with BRR_TEST_IMAGE=cuda alone."""
import glob
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["BRR_SOURCE_DIR"], "tests", "integration"))
import debian  # noqa: E402
from daemon import SOURCE, make_corpus, temporary  # noqa: E402
from test_image import LIMITS, STRICT, Podman, check_stream, given, healthy, stop  # noqa: E402

PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as Debian's images have it
TOOLKIT = os.path.realpath(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
EMULATED = f"{debian.BUILD}/tests/libbrr_cuda_emulated.so"


def skip(text):
    print(f"skipped: {text}")
    sys.exit(77)


def toolkit_image(podman, tmp):
    """scratch, with the toolkit and cuDNN where NVIDIA's images have them."""
    root = f"{tmp}/cuda"
    libraries, headers = f"{root}/usr/lib/x86_64-linux-gnu", f"{root}/usr/include/x86_64-linux-gnu"
    for folder in (libraries, headers, f"{root}/usr/local"):
        os.makedirs(folder)
    shutil.copytree(TOOLKIT, f"{root}/usr/local/cuda-13.0", symlinks=True)
    for pattern, folder in (("lib64/libcudnn*", libraries), ("lib64/libnccl*", libraries), ("include/cudnn*_v9.h", headers)):
        found = glob.glob(f"{root}/usr/local/cuda-13.0/{pattern}")
        assert found, f"{TOOLKIT} has no {pattern}"
        for path in found:
            shutil.move(path, folder)
    archive = f"{tmp}/cuda.tar"
    debian.run("tar", "-C", root, "-cf", archive, ".")
    shutil.rmtree(root)
    podman("import", "-q", archive, "cuda-toolkit")
    os.remove(archive)


def sources(context):
    """What the Dockerfile copies: the files of the tree, and the packages of this build for the stages of the CPU."""
    given(context)
    for path in debian.run("git", "-C", SOURCE, "ls-files").splitlines():
        os.makedirs(os.path.dirname(f"{context}/{path}"), exist_ok=True)
        shutil.copy(f"{SOURCE}/{path}", f"{context}/{path}")
    return context


def build(podman, tmp):
    base = debian.base_archive()
    for tag in ("12", "12-slim"):
        podman("import", "-q", "--change", PATH, base, f"docker.io/library/debian:{tag}")
    toolkit_image(podman, tmp)
    podman("build", "-q", "--format", "docker", "--layers=false", "--network", "host", "--build-arg", "PACKAGES=given",
           "--build-arg", "CUDA=localhost/cuda-toolkit", "--target", "runtime-cuda", "-t", "brrd:cuda",
           "-f", f"{SOURCE}/Dockerfile", sources(f"{tmp}/context"), timeout=7200)


def check_libraries(podman):
    look = "ldd $(find /usr/lib/brrd /usr/local/lib -name '*.so*' -type f) /usr/bin/brrd /usr/bin/brrctl; ldconfig -p"
    found = podman("run", "--rm", *LIMITS, "--entrypoint", "sh", "brrd:cuda", "-c", look)
    assert "not found" not in found, found
    for library in ("/usr/lib/brrd/libbrr_cuda.so:", "=> /usr/local/lib/libcublasLt.so.13", "libnccl.so.2", "libcudnn.so.9"):
        assert library in found, (library, found)


def serve(podman, tmp, *options, config=()):
    podman("run", "-d", "--name", "bed", *STRICT, "-v", f"{tmp}/eeg:/data:ro", *options,
           "brrd:cuda", "--config", "/etc/brrd/daemon.yaml", *config)
    try:
        healthy(podman)
        check_stream(podman)
        devices = podman.inside("brrctl", "devices")
        log = podman("logs", "bed", check=False)
        stop(podman)
        return devices, log.stdout + log.stderr
    finally:
        podman("rm", "-f", "-t", "0", "bed", check=False)


def main():
    if os.environ.get("BRR_TEST_IMAGE") != "cuda":
        skip("long: BRR_TEST_IMAGE=cuda compiles the kernels in a container")
    if os.geteuid() != 0:
        skip("rights: podman with a storage of its own, and debootstrap, need root")
    if not glob.glob(f"{TOOLKIT}/lib64/libcudnn.so.9"):
        skip(f"package: {TOOLKIT} has no CUDA toolkit with cuDNN 9")
    if not os.path.exists(EMULATED):
        skip(f"build: no {EMULATED}; build brr_cuda_emulated")
    with temporary() as tmp:
        podman = Podman(f"{tmp}/podman")
        build(podman, tmp)
        make_corpus(f"{tmp}/eeg", 7, patients=1, hours=0.05)
        os.chmod(f"{tmp}/eeg", 0o755)
        os.chmod(tmp, 0o755)
        try:
            check_libraries(podman)
            devices, log = serve(podman, tmp)
            assert "cpu" in devices and "driver" in log and "cannot open shared object" not in log, (devices, log)
            devices, log = serve(podman, tmp, "-v", f"{EMULATED}:/emulated.so:ro", "-e", "BRR_CUDA_LIBRARY=/emulated.so",
                                 config=("--set", "devices=[cuda:0]"))
            assert "cuda:0" in devices, (devices, log)
        finally:
            podman("rmi", "-a", "-f", check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
