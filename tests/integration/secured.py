"""A brrd behind TLS and tokens, made by `brrctl tls`, and what its callers need."""
import json
import os
import subprocess
import time
import urllib.request
import ssl

from daemon import BIN, PATIENCE, Daemon, free_port

ROLES = ("read", "stream", "submit", "admin")


def tls(*args, fails=False):
    """`brrctl tls …`, without any daemon; its output, or with fails=True its error."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("BRR_") or k == "BRR_BIN"}
    r = subprocess.run([f"{BIN}/brrctl", "tls", *args], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert (r.returncode != 0) == fails, (args, r.returncode, r.stdout, r.stderr)
    return r.stderr if fails else r.stdout


def openssl(*args, **options):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, text=True, **options).stdout


def secret_file(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        f.write(text)
    return path


class Secured(Daemon):
    """On 127.0.0.1 with TLS; .tokens holds the text of a token for each role, in DIR/ROLE.token too."""

    def __init__(self, directory, extra=(), roles=ROLES):
        self.ca = os.path.join(directory, "tls")
        if not os.path.exists(self.ca):
            tls("init", self.ca)
        self.tcp = free_port()
        super().__init__(directory, [f"listen.tcp=127.0.0.1:{self.tcp}", f"tls.cert={self.ca}/server.crt", f"tls.key={self.ca}/server.key",
                                     f"auth.tokens_file={self.ca}/tokens", *extra])
        self.tokens = {role: self.first_token() if role == "admin" else self.new_token(role, role) for role in roles}

    def first_token(self):
        """The administrator's, of `tls init`."""
        with open(f"{self.ca}/admin.token", encoding="utf-8") as f:
            return open(secret_file(self.token_file("admin"), f.read()), encoding="utf-8").read().strip()

    def new_token(self, role, name, *options):
        token = tls("token", self.ca, "--role", role, "--name", name, *options).strip()
        secret_file(self.token_file(name), token + "\n")
        return token

    def token_file(self, name):
        return os.path.join(self.dir, f"{name}.token")

    def as_role(self, name, *command, env=None, ca=None):
        """brrctl over TCP with TLS and this token (None: without one); (code, stdout, stderr)."""
        env = {**os.environ, "BRR_ENDPOINT": f"127.0.0.1:{self.tcp}", "BRR_TLS_CA": ca or f"{self.ca}/ca.crt", **(env or {})}
        if name:
            env["BRR_TOKEN_FILE"] = self.token_file(name)
        r = subprocess.run([f"{BIN}/brrctl", *command], env=env, capture_output=True, text=True, timeout=PATIENCE)
        return r.returncode, r.stdout, r.stderr

    def refused(self, name, *command, env=None):
        """The reason code with which a command is refused."""
        code, out, err = self.as_role(name, *command, env=env)
        assert code == 1 and err.rstrip().endswith("]"), (code, out, err)
        return err.rstrip().rpartition("[")[2].rstrip("]")

    def scrape(self, path="/metrics", token=None):
        context = ssl.create_default_context(cafile=f"{self.ca}/ca.crt")
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
        return urllib.request.urlopen(request, context=context, timeout=PATIENCE).read().decode()

    def failures(self):
        """brrd_auth_failures_total by reason, over the unix socket."""
        code, out, err = self.ctl("metrics", "brrd_auth_failures_total", "--json")
        assert code == 0, err
        return {next(iter(json.loads(line)["labels"].values())): json.loads(line)["value"] for line in out.splitlines()}

    def until(self, condition, what):
        deadline = time.time() + PATIENCE
        while not condition():
            assert time.time() < deadline, f"{what}: {self.read_log()}"
            time.sleep(0.05)

    def secrets(self):
        """Texts that must never leave their files: tokens, and the middle of each private key."""
        files = [os.path.join(self.ca, name) for name in os.listdir(self.ca)]
        keys = [line for path in files if path.endswith(".key") for line in open(path, encoding="utf-8") if "-----" not in line]
        tokens = [open(os.path.join(self.dir, name), encoding="utf-8").read() for name in os.listdir(self.dir) if name.endswith(".token")]
        return [s.strip() for s in keys + tokens + [open(f"{self.ca}/admin.token", encoding="utf-8").read()]]
