#!/usr/bin/env python3
"""The order of the verbs of ./dev on a new machine changes nothing. A build that was configured before MPI came finds it, keeps its options and
its objects, and is then the build of a machine that had MPI from the start; a build whose packages were replaced is made anew. With
BRR_TEST_BARE=full also two bare Debians, on which the first verb is `build` or `test`: no test fails, both skip the same tests for want of a
GPU and of data alone, the same targets, tests and packages come out, and the first commands of README.md work; that needs root, a quiet
machine, two to three hours, and BRR_TEST_LIMIT for them."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["BRR_SOURCE_DIR"], "tests", "integration"))
from daemon import PATIENCE, SOURCE, temporary  # noqa: E402

import debian  # noqa: E402

# /dev/null in place of mpicc's file: there is no mpicc.
WITHOUT_MPI = ["unshare", "-rm", "sh", "-c", 'mount --bind /dev/null "$(readlink -f "$(command -v mpicc)")" && exec "$@"', "sh"]


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def dev(build, *words, before=()):
    r = subprocess.run([*before, f"{SOURCE}/dev", *words], env={**os.environ, "BRR_BUILD_DIR": build}, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stderr


def compiles(build, target):
    return "no work to do" not in debian.run("ninja", "-C", build, target)


def check_order(tmp):
    late, early, target = f"{tmp}/late", f"{tmp}/early", "step_clock"
    dev(late, "configure", "-DBRR_CUDA=OFF", before=WITHOUT_MPI)
    assert "libbrr_mpi" not in text(f"{late}/build.ninja"), "mpicc was found although it was hidden"
    assert compiles(late, target)
    dev(late, "configure")
    assert "BRR_CUDA:STRING=OFF" in text(f"{late}/CMakeCache.txt") and not compiles(late, target), "options or objects were lost"
    dev(early, "configure", "-DBRR_CUDA=OFF")
    assert text(f"{late}/build.ninja").replace(late, early) == text(f"{early}/build.ninja"), "the two builds differ"
    assert tests(late) == tests(early)
    assert dev(late, "configure") == "", "nothing has changed"
    stamp = text(f"{late}/searched")
    with open(f"{late}/searched", "w", encoding="utf-8") as f:
        f.write(re.sub(r"^libgrpc-dev .*", "libgrpc-dev 1.0", stamp, flags=re.M))
    dev(late, "configure")
    assert compiles(late, target), "objects of other headers were kept"
    assert "BRR_CUDA:STRING=OFF" in text(f"{late}/CMakeCache.txt") and text(f"{late}/searched") == stamp


def tests(build, run=debian.run):
    return re.findall(r"Test +#\d+: (\S+)", run("ctest", "--test-dir", build, "-N"))


class Machine:
    """A bare Debian with a copy of the sources."""

    def __init__(self, directory):
        self.root = debian.Root(directory)
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True).stdout
        os.makedirs(f"{directory}/src")
        subprocess.run(f"tar -C '{SOURCE}' --null --ignore-failed-read -T - -c | tar -C '{directory}/src' -x", shell=True, input=listed, check=True)

    def __call__(self, script):
        began = time.monotonic()
        said = self.root("bash", "-c", f'cd /src && export HOME=/root PATH=/src/build/bin:$PATH && unset "${{!BRR_@}}" && {script}')
        print(f"{self.root.dir[-5:]} {script[:60]}: {time.monotonic() - began:.0f} s, {said.strip().splitlines()[-1] if said.strip() else ''}", flush=True)
        return said

    def test(self):
        """All tests pass; the lines of those that were skipped, and of parts."""
        said = self("./dev test && cat build/skipped.txt")
        assert re.search(r"^\d+ passed, 0 failed, \d+ skipped$", said, re.M), said[-4000:]
        skipped = sorted(re.findall(r"^skipped: .*: \w+: .*$", said, re.M))
        others = [line for line in skipped if not re.search(r": (hardware|data): ", line)]
        assert not others, "skipped for want of something else than a GPU or data: " + "\n".join(others)
        return skipped

    def outcome(self):
        targets = re.findall(r"^([\w-]+): phony", self.root("ninja", "-C", "/src/build", "-t", "targets", "all"), re.M)
        return sorted(targets), tests("/src/build", self.root), sorted(os.listdir(f"{self.root.dir}/src/build/packages"))


def first_commands():
    """The indented lines of README.md's first chapter, with a daemon that is up before the next command and ends with them."""
    chapter = re.search(r"^## The first ten minutes\n(.*?)^## ", text(f"{SOURCE}/README.md"), re.M | re.S)[1]
    lines = [line[4:] for line in re.findall(r"^    .*$", chapter, re.M)]
    assert lines[0].startswith("./dev build") and len(lines) > 3, lines
    up = "& daemon=$!; until brrctl version; do kill -0 $daemon; sleep 0.1; done"
    return "set -e; " + "\n".join(re.sub(r"& *#.*$|&$", up, line) for line in lines) + "\nkill $daemon; wait $daemon"


def check_bare_machines(tmp):
    machines, skipped = {}, {}
    try:
        for first in ("build", "test"):
            machines[first] = machine = Machine(f"{tmp}/{first}")
            if first == "build":
                machine("./dev build")
            skipped[first] = machine.test()
            if first == "test":
                machine("./dev build")
            machine("./dev package")
            machine(first_commands())
        assert skipped["build"] == skipped["test"], set(skipped["build"]) ^ set(skipped["test"])
        print("skipped on both:", *skipped["build"], sep="\n  ")
        one, two = (machine.outcome() for machine in machines.values())
        assert one == two, [set(a) ^ set(b) for a, b in zip(one, two)]
        assert any(name.startswith("brrd-mpi_") for name in one[2]), one[2]
    finally:
        for machine in machines.values():
            machine.root.close()


def main():
    if subprocess.run([*WITHOUT_MPI, "true"], capture_output=True).returncode:
        print("skipped: rights: no mount namespaces here, so MPI cannot be hidden")
        return 77
    with temporary() as tmp:
        check_order(tmp)
        if os.environ.get("BRR_TEST_BARE") == "full":
            check_bare_machines(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
