#!/usr/bin/env python3
"""What `cmake --install` puts down is whole: the unit finds its program, its configuration and its page, programs run from there, and a
configuration that somebody has edited stays."""
import glob
import os
import re
import subprocess
import sys

from daemon import SOURCE, sanitizers, temporary

BUILD = os.environ["BRR_BUILD_DIR"]


def install(root, prefix="/usr"):
    r = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], env={**os.environ, "DESTDIR": root}, capture_output=True, text=True)
    assert r.returncode == 0, r


def check_paths(config):
    """A new configuration names the directories that the unit makes."""
    with open(config, encoding="utf-8") as f:
        text = f.read()
    assert re.search(r"^  cache: /var/cache/brrd\b", text, re.M) and re.search(r"^  results: /var/lib/brrd\b", text, re.M), text


def check_prefix():
    """The unit names what was installed, wherever that is."""
    with temporary() as root:
        install(root, "/usr/local")
        with open(f"{root}/usr/local/lib/systemd/system/brrd.service", encoding="utf-8") as f:
            unit = f.read()
        program, config = re.search(r"^ExecStart=(\S+) --config (\S+)", unit, re.M).groups()
        page = re.search(r"^Documentation=file:(\S+)", unit, re.M)[1]
        assert program == "/usr/local/bin/brrd", unit
        for path in (program, config, page):
            assert os.path.isfile(root + path), path
        check_paths(root + config)


def check_hardened(program):
    """All addresses are bound at the start and read-only then; functions with buffers have a guard, calls with known sizes a check."""
    read = lambda *options: subprocess.run(["readelf", "--wide", *options, program], capture_output=True, text=True, check=True).stdout
    assert "GNU_RELRO" in read("--segments") and "NOW" in read("--dynamic"), program
    symbols = read("--dyn-syms")
    assert "__stack_chk_fail" in symbols and "_chk@" in symbols, program


def check_scan_library(root):
    """A program is built and run with what the header, the pkg-config file and the library say, where they are."""
    (found,) = glob.glob(f"{root}/usr/lib*/**/brr_scan.pc", recursive=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", found], capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", f"{root}/usr/share/brrd/examples/scan.c", "-o", f"{root}/scan", *flags, "-lm"], check=True)
    libraries = os.path.dirname(os.path.dirname(found))
    r = subprocess.run([f"{root}/scan"], env={**os.environ, "LD_LIBRARY_PATH": libraries}, capture_output=True, text=True)
    assert r.returncode == 0 and "32 tokens, at once and one by one" in r.stdout, r


def check_images():
    """A daemon with TLS is as healthy as one without: its images ask over the unix socket."""
    with open(f"{SOURCE}/Dockerfile", encoding="utf-8") as f:
        checks = re.findall(r"^HEALTHCHECK (?!NONE).*", f.read(), re.M)
    assert checks and all("unix:" in c and "http:" not in c for c in checks), checks


def main():
    with open(f"{SOURCE}/systemd/brrd.service", encoding="utf-8") as f:
        unit = f.read()
    program, config = re.search(r"^ExecStart=(\S+) --config (\S+)", unit, re.M).groups()
    page = re.search(r"^Documentation=file:(\S+)", unit, re.M)[1]
    with temporary() as root:
        install(root)
        with open(f"{root}/usr/lib/systemd/user/brrd.service", encoding="utf-8") as f:
            assert "ExecStart=/usr/bin/brrd --user" in f.read()
        with open(f"{root}/usr/lib/systemd/system/brrd.service", encoding="utf-8") as f:
            assert f.read() == unit and "--set" not in unit, "the file decides"
        check_paths(root + config)
        for path in (program, config, page):
            assert os.path.isfile(root + path), f"{path} of systemd/brrd.service is not installed"
        assert os.path.isfile(f"{BUILD}/lib/libbrr_cuda.so") == os.path.isfile(f"{root}/usr/lib/brrd/libbrr_cuda.so")
        for command in ([program, "--config", root + config, "--check-config", "--set", f"paths.cache={root}/cache", "--set", f"paths.results={root}/results", "--set", "listen.unix_group=root"], ["/usr/bin/brrctl", "keys"]):
            r = subprocess.run([root + command[0], *command[1:]], capture_output=True, text=True)
            assert r.returncode == 0, r
        with open(root + config, "a", encoding="utf-8") as f:
            f.write("# edited\n")
        install(root)
        with open(root + config, encoding="utf-8") as f:
            assert f.read().endswith("# edited\n")
        if not sanitizers():
            check_scan_library(root)
        for path in () if sanitizers() else (program, "/usr/bin/brrctl"):  # these have checks of their own
            check_hardened(root + path)
    check_prefix()
    check_images()
    return 0


if __name__ == "__main__":
    sys.exit(main())
