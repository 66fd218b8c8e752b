#!/usr/bin/env python3
"""Who may do what on the unix socket: the daemon's own user and root are admin, members of listen.unix_group may submit, others are kept
out by the mode, or need a token; local files are for the daemon's user and root alone. Needs root, to run brrctl as other users."""
import json
import os
import shutil
import stat
import subprocess
import sys

from daemon import BIN, PATIENCE, SOURCE, Daemon, make_corpus, temporary
from secured import secret_file, tls

GROUP, USER = 60, 65534  # games, nobody


def as_user(d, command, groups="--clear-groups", env=None):
    """brrctl run by an ordinary user; (code, stdout, stderr)."""
    r = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", groups, f"{d.dir}/bin/brrctl", *command],
                       env={**d.env, "LD_LIBRARY_PATH": f"{d.dir}/bin", **(env or {})}, capture_output=True, text=True, timeout=PATIENCE, cwd="/", check=False)
    return r.returncode, r.stdout, r.stderr


def programs(tmp):
    """A copy of brrctl that every user may run."""
    os.chmod(tmp, 0o755)
    os.makedirs(f"{tmp}/bin")
    shutil.copy(f"{BIN}/brrctl", f"{tmp}/bin")
    library = f"{os.path.dirname(BIN)}/lib"
    for name in os.listdir(library):
        if name.startswith("libbrr.so"):
            shutil.copy(f"{library}/{name}", f"{tmp}/bin")


def mode_of(d):
    s = os.stat(d.socket)
    return stat.S_IMODE(s.st_mode), s.st_gid


def alone(tmp):
    d = Daemon(tmp).start()
    assert mode_of(d) == (0o600, 0)
    code, _, err = as_user(d, ["version"])
    assert code == 1 and "unix_group" in err, (code, err)
    assert 'msg="audit" principal=uid:0 role=admin' not in d.read_log(), "what only reads is not logged at level info"
    assert d.ctl("unload", "none")[0] == 3
    assert 'msg="audit" principal=uid:0 role=admin listener=unix method=/brr.v1.Models/Unload outcome=not_found' in d.read_log()
    assert d.stop() == 0 and not os.path.exists(d.socket)


def group(tmp):
    d = Daemon(tmp, [f"listen.unix_group={GROUP}"]).start()
    assert mode_of(d) == (0o660, GROUP)
    member = f"--groups={GROUP}"
    assert as_user(d, ["version"])[0] == 1
    code, out, err = as_user(d, ["version"], member)
    assert code == 0, err
    code, _, err = as_user(d, ["cancel", "none-1"], member)
    assert code == 3, err
    code, _, err = as_user(d, ["drain"], member)
    assert code == 1 and f"uid:{USER} has the role submit [ROLE_TOO_SMALL]" in err, err
    for _ in range(20):  # many users and connections, one after the other: each keeps its own role
        assert as_user(d, ["unload", "none"], member)[0] == 1 and d.ctl("unload", "none")[0] == 3
    local_paths(d, member)
    assert d.stop() == 0


def local_paths(d, member):
    """demo.yaml has local_paths: true: for root, not for a member of the group, who may name what lies under paths.data."""
    make_corpus(f"{d.dir}/eeg", seed=3, patients=2)
    os.symlink(f"{d.dir}/eeg", f"{d.dir}/data/eeg")
    shutil.copy(f"{SOURCE}/configs/tiny.yaml", f"{d.dir}/bin")
    command = ["submit", f"{d.dir}/bin/tiny.yaml", "--json", "--set", "training.max_steps=1"]
    outside, inside = ["--set", f"data.source=file://{d.dir}/eeg"], ["--set", f"data.source=file://{d.dir}/data/eeg"]
    code, _, err = as_user(d, command + outside, member)
    assert code == 1 and "outside paths.data" in err and "local_paths" in err, err
    code, _, err = as_user(d, ["load", "m", f"{SOURCE}/README.md"], member)
    assert code == 1, err
    for run, sets in ((lambda c: as_user(d, c, member), inside), (lambda c: d.ctl(*c), outside)):
        code, out, err = run(command + sets)
        assert code == 0, err
        assert d.ctl("cancel", json.loads(out)["job"])[0] == 0
    assert f"principal=uid:{USER} role=submit listener=unix method=/brr.v1.Jobs/Submit outcome=ok" in d.read_log()


def open_to_all(tmp):
    lab = f"{tmp}/lab"
    tls("init", lab)
    token = tls("token", lab, "--role", "read", "--name", "guest").strip()
    d = Daemon(tmp, ["listen.unix_mode=0666", f"auth.tokens_file={lab}/tokens"]).start()
    code, _, err = as_user(d, ["version"])
    assert code == 1 and "[TOKEN_MISSING]" in err, err
    secret_file(f"{tmp}/guest.token", token)
    os.chown(f"{tmp}/guest.token", USER, USER)
    assert as_user(d, ["version"], env={"BRR_TOKEN_FILE": f"{tmp}/guest.token"})[0] == 0
    assert as_user(d, ["drain"], env={"BRR_TOKEN_FILE": f"{tmp}/guest.token"})[0] == 1
    assert d.ctl("drain")[0] == 0
    assert d.process.wait(timeout=PATIENCE) == 0


def main():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("skipped: rights: only root can run brrctl as other users")
        return 77
    for part in (alone, group, open_to_all):
        with temporary() as tmp:
            programs(tmp)
            part(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
