#!/usr/bin/env python3
"""`brrd --user`: the directories of one user, a configuration that is written once and then theirs, clients that find it without a word, and
jobs that are there after a restart. Its unit is one that systemd accepts."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

from daemon import BIN, PATIENCE, SOURCE, free_port, make_corpus, temporary


class User:
    def __init__(self, home):
        self.home = home
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("BRR_ENDPOINT", "XDG_"))}
        self.env.update(HOME=home, XDG_RUNTIME_DIR=f"{home}/run")
        os.makedirs(f"{home}/run", mode=0o700)

    def start(self, *words):
        with open(f"{self.home}/log", "ab") as log:
            process = subprocess.Popen([f"{BIN}/brrd", "--user", *words], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.time() + PATIENCE
        while self.ctl("version")[0]:
            assert process.poll() is None and time.time() < deadline, open(f"{self.home}/log", encoding="utf-8").read()
            time.sleep(0.05)
        return process

    def ctl(self, *words):
        r = subprocess.run([f"{BIN}/brrctl", *words], env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        return r.returncode, r.stdout, r.stderr


def check_private(home):
    for path in (".config/brrd", ".local/state/brrd", ".cache/brrd", "run/brrd"):
        assert stat.S_IMODE(os.stat(f"{home}/{path}").st_mode) == 0o700, path


def check_configuration(user):
    """Written at the first start, read at the next, never written again."""
    path = f"{user.home}/.config/brrd/daemon.yaml"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    port = free_port()
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", text) + "# mine\n")
    return path, port


def check_ports(tmp):
    """Two users of one machine: the second gets another port; a port that was taken since is named with the file that says so."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 9465))
        taken.listen()
    except OSError:
        pass  # somebody's daemon has it
    with taken:
        user = User(f"{tmp}/grace")
        process = user.start()
    path = f"{user.home}/.config/brrd/daemon.yaml"
    with open(path, encoding="utf-8") as f:
        port = int(re.search(r"^  listen: 127\.0\.0\.1:(\d+) ", f.read(), re.M)[1])
    assert 9465 < port < 9565, port
    with open(f"{user.home}/log", encoding="utf-8") as f:
        assert f"http=127.0.0.1:{port}" in f.read()
    subprocess.run(["curl", "-fsS", f"http://127.0.0.1:{port}/healthz"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    other = User(f"{tmp}/joan")
    os.makedirs(f"{other.home}/.config/brrd", mode=0o700)
    shutil.copy(path, f"{other.home}/.config/brrd/daemon.yaml")
    r = subprocess.run([f"{BIN}/brrd", "--user", "--set", f"paths.results={other.home}/r", "--set", f"paths.cache={other.home}/c"], env=other.env,
                       capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and f"{other.home}/.config/brrd/daemon.yaml: http.listen" in r.stderr, r.stderr
    assert f"another program listens on 127.0.0.1:{port}; choose another port, or none" in r.stderr, r.stderr
    process.terminate()
    assert process.wait(PATIENCE) == 0


def main():
    with temporary() as tmp:
        user = User(f'{tmp}/ada "the \\ quoted"')
        make_corpus(f"{tmp}/eeg", 3, patients=1, hours=0.05)
        code, _, err = user.ctl("version")
        assert code and "brrd --user" in err and "/run/brrd/brrd.sock" in err, err
        first = user.start("--set", "http.listen=none")
        os.rename(f"{user.home}/run/brrd", f"{user.home}/run/away")  # a daemon that has no socket yet
        early = subprocess.Popen([f"{BIN}/brrctl", "version"], env=user.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "the daemon is starting" in (said := early.stderr.readline()), said
        time.sleep(4)  # as long as it lives, the client waits
        os.rename(f"{user.home}/run/away", f"{user.home}/run/brrd")
        out, err = early.communicate(timeout=PATIENCE)
        assert early.returncode == 0 and out.startswith("brrd "), err
        check_private(user.home)
        path, port = check_configuration(user)
        code, out, err = user.ctl("submit", f"{SOURCE}/configs/burst.yaml", "--set", "ticks=100", "--watch", "--json")
        assert code == 0, err
        job = json.loads(out.splitlines()[-1])["job"]
        second = subprocess.run([f"{BIN}/brrd", "--user", "--set", "http.listen=none"], env=user.env, capture_output=True, text=True, timeout=PATIENCE)
        assert second.returncode == 1 and "another daemon uses paths.cache" in second.stderr, second.stderr
        first.send_signal(signal.SIGKILL)
        first.wait()
        code, _, err = user.ctl("version")
        assert code and "/run/brrd/brrd.sock" in err, err  # a socket that nobody listens on is not taken for a daemon
        assert "starting" not in err, "the lock of a daemon that was killed is free: " + err
        again = user.start()
        code, out, err = user.ctl("jobs", "--json")
        assert code == 0 and job in out, out + err
        recordings = [os.path.join(d, n) for d, _, names in os.walk(f"{tmp}/eeg") for n in names if n.endswith(".edf")]
        code, _, err = user.ctl("stream", recordings[0], "--model", "line_length", "--output", f"{tmp}/x.tsv")
        assert code == 0, err
        subprocess.run(["curl", "-fsS", f"http://127.0.0.1:{port}/healthz"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        assert open(path, encoding="utf-8").read().endswith("# mine\n")
        again.terminate()
        assert again.wait(PATIENCE) == 0
        check_ports(tmp)
        both = subprocess.run([f"{BIN}/brrd", "--user", "--config", path], env=user.env, capture_output=True, text=True, timeout=PATIENCE)
        assert both.returncode == 2 and "exclude" in both.stderr, both.stderr
        if shutil.which("systemd-analyze"):
            with open(f"{SOURCE}/systemd/brrd-user.service", encoding="utf-8") as f, open(f"{tmp}/brrd.service", "w", encoding="utf-8") as out:
                out.write(f.read().replace("/usr/bin/brrd", f"{BIN}/brrd"))
            r = subprocess.run(["systemd-analyze", "--user", "verify", "--man=no", f"{tmp}/brrd.service"], env=user.env, capture_output=True, text=True,
                               timeout=PATIENCE)
            assert r.returncode == 0 and "brrd.service" not in r.stderr, r.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
