"""Packages of npm for the tests that need a stock program from there, at the versions of a package-lock.json."""
import hashlib
import os
import shutil
import subprocess
import sys

from daemon import PATIENCE

OFFLINE = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH", "ECONNRESET", "network")


def skip(kind, text):
    print(f"skipped: {kind}: {text}")
    sys.exit(77)


def npm_modules(folder):
    """The folder node_modules with the packages of folder/package-lock.json, fetched once for a build. Skips the test where npm or its
    registry is not at hand."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            skip("package", f"there is no {program}; ./dev deps installs it")
    build = f"{os.environ['BRR_BUILD_DIR']}/npm/{os.path.basename(folder)}"
    with open(f"{folder}/package-lock.json", "rb") as f:
        want = hashlib.sha256(f.read()).hexdigest()
    stamp = f"{build}/installed"
    if os.path.exists(stamp) and open(stamp, encoding="ascii").read() == want:
        return f"{build}/node_modules"
    shutil.rmtree(build, ignore_errors=True)
    os.makedirs(build)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(f"{folder}/{name}", build)
    r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=build, capture_output=True, text=True, timeout=PATIENCE)
    if r.returncode and any(word in r.stderr for word in OFFLINE):
        skip("network", "the npm registry cannot be reached: " + r.stderr.strip().splitlines()[0])
    assert r.returncode == 0, r.stderr
    with open(stamp, "w", encoding="ascii") as f:
        f.write(want)
    return f"{build}/node_modules"
