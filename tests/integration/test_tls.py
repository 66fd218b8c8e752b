#!/usr/bin/env python3
"""TLS and tokens with brrctl: what each role may do, the reason of every refusal in answer, log and metric, certificates and tokens
that change while connections live, and no secret in any output."""
import calendar
import hashlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from http import client

from daemon import BIN, PATIENCE, SOURCE, make_corpus, temporary
from secured import Secured, openssl, secret_file, tls


def files_of_init(tmp):
    made = f"{tmp}/lab"
    out = tls("init", made, "--host", "eeg.lab.example", "--host", "10.1.2.3")
    assert "eeg.lab.example" in out
    assert sorted(os.listdir(made)) == ["admin.token", "ca.crt", "ca.key", "server.crt", "server.key", "tokens"]
    for name in os.listdir(made):
        mode = os.stat(f"{made}/{name}").st_mode & 0o777
        assert mode == (0o644 if name.endswith(".crt") else 0o600), (name, oct(mode))
    names = openssl("x509", "-in", f"{made}/server.crt", "-noout", "-ext", "subjectAltName")
    assert "DNS:eeg.lab.example, IP Address:10.1.2.3" in names, names
    openssl("verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", f"{made}/ca.crt", f"{made}/server.crt")
    with open(f"{made}/admin.token", encoding="utf-8") as f:
        token = f.read().strip()
    digest = subprocess.run(["sha256sum"], input=token.encode(), capture_output=True, check=True).stdout.split()[0].decode()
    with open(f"{made}/tokens", encoding="utf-8") as f:
        assert f.read() == f"admin admin {digest}\n"
    assert "exists already" in tls("init", made, fails=True)
    assert "neither a host's name nor an address" in tls("init", f"{tmp}/other", "--host", "https://x", fails=True)
    assert not os.path.exists(f"{tmp}/other/ca.key")
    assert "--role" in tls("token", made, "--name", "x", fails=True) and "--name" in tls("token", made, "--role", "read", fails=True)
    assert "cannot name a token" in tls("token", made, "--role", "read", "--name", "a b", fails=True)
    assert "brrctl tls init" in tls("token", f"{tmp}/nowhere", "--role", "read", "--name", "x", fails=True)
    names = openssl("x509", "-in", f"{tmp}/tls/server.crt", "-noout", "-ext", "subjectAltName")
    assert "DNS:localhost, IP Address:127.0.0.1" in names, names


def renewed(tmp):
    """A new certificate takes the place of the old one: for its hosts, with owner, group and mode of the files that it replaces."""
    made = f"{tmp}/renewed"
    names = ("eeg.lab.example", "*.ward.example", "10.1.2.3", "2001:db8::7")
    tls("init", made, *(word for name in names for word in ("--host", name)))
    os.chmod(f"{made}/server.key", 0o640)
    os.chmod(f"{made}/tokens", 0o640)
    group = 4242 if os.geteuid() == 0 else os.getgid()
    for name in ("server.key", "server.crt", "tokens"):
        os.chown(f"{made}/{name}", group if os.geteuid() == 0 else -1, group)
    before, first = {name: os.stat(f"{made}/{name}") for name in os.listdir(made)}, openssl("x509", "-in", f"{made}/server.crt", "-noout", "-serial")
    out = tls("renew", made)
    assert all(name in out for name in names), out
    assert first != openssl("x509", "-in", f"{made}/server.crt", "-noout", "-serial")
    found = openssl("x509", "-in", f"{made}/server.crt", "-noout", "-ext", "subjectAltName")
    assert "DNS:eeg.lab.example, DNS:*.ward.example, IP Address:10.1.2.3, IP Address:2001:DB8:0:0:0:0:0:7" in found, found
    tls("token", made, "--role", "read", "--name", "x")
    tls("revoke", made, "--name", "x")
    for name, old in before.items():
        new = os.stat(f"{made}/{name}")
        assert (new.st_mode, new.st_uid, new.st_gid) == (old.st_mode, old.st_uid, old.st_gid), name
    assert sorted(os.listdir(made)) == sorted(before), "no temporary file stays"
    assert "other.example" in tls("renew", made, "--host", "other.example")
    assert openssl("x509", "-in", f"{made}/server.crt", "-noout", "-ext", "subjectAltName").strip().endswith("DNS:other.example")
    os.unlink(f"{made}/server.crt")
    assert "--host" in tls("renew", made, fails=True)
    tls("renew", made, "--host", "other.example")


def roles(d):
    """A command that needs each role, and what it says when the role is enough."""
    wanted = {"read": (("jobs",), 0, ""), "stream": (("stream", f"{SOURCE}/README.md", "--model", "none"), 1, "README.md"),
              "submit": (("cancel", "none-1"), 3, "none-1"), "admin": (("unload", "none"), 3, "none")}
    order = list(wanted)
    for have in order:
        for needed, (command, code, word) in wanted.items():
            if order.index(have) >= order.index(needed):
                got = d.as_role(have, *command)
                assert got[0] == code and word in got[1] + got[2] and "ROLE" not in got[2], (have, needed, got)
            elif needed != "stream":  # the recording is looked at first
                assert d.refused(have, *command) == "ROLE_TOO_SMALL"
    make_corpus(f"{d.dir}/eeg", seed=3, patients=1, hours=0.05)
    recording = f"{d.dir}/eeg/sub-01/sub-01_run-01_eeg.edf"
    assert d.refused("stream", "stream", recording, "--model", "store://none/net.safetensors") == "ROLE_TOO_SMALL", "a fetch"
    assert "has no store 'none'" in d.as_role("submit", "stream", recording, "--model", "store://none/net.safetensors")[2]
    code, out, err = d.as_role("read", "version", "--json")
    assert code == 0 and json.loads(out)["version"], err
    options = ["--endpoint", f"localhost:{d.tcp}", "--tls-ca", f"{d.ca}/ca.crt", "--token-file", d.token_file("read")]
    for arguments in (["version", *options], [*options, "version"]):
        assert subprocess.run([f"{BIN}/brrctl", *arguments], capture_output=True, check=False).returncode == 0, arguments


def refusals(d):
    before = d.failures()
    secret_file(d.token_file("wrong"), "brr_" + "0" * 64)
    secret_file(d.token_file("cut"), d.tokens["admin"][:-1])
    d.new_token("admin", "gone")
    d.new_token("admin", "old")
    with open(f"{d.ca}/tokens", encoding="utf-8") as f:
        tokens = f.read()
    with open(f"{d.ca}/tokens", "w", encoding="utf-8") as f:
        f.write(re.sub(r"^(admin old .*)$", r"\1 until=2020-01-31", tokens, flags=re.M))
    d.until(lambda: d.as_role("gone", "jobs")[0] == 0, "a new token")
    assert "1 token" in tls("revoke", d.ca, "--name", "gone")
    d.until(lambda: d.as_role("gone", "jobs")[0] == 1, "a revoked token")
    assert [d.refused(name, "jobs") for name in (None, "wrong", "cut", "gone", "old")] == [
        "TOKEN_MISSING", "TOKEN_UNKNOWN", "TOKEN_UNKNOWN", "TOKEN_REVOKED", "TOKEN_EXPIRED"]
    now, log = d.failures(), d.read_log()
    for reason in ("token_missing", "token_unknown", "token_revoked", "token_expired"):
        assert now[reason] > before[reason] and f"reason={reason.upper()}" in log, (reason, before, now)
    assert "reason=TOKEN_REVOKED principal=token:gone role=none listener=tcp method=/brr.v1.Jobs/List" in log, log
    os.chmod(d.token_file("admin"), 0o644)
    code, _, err = d.as_role("admin", "jobs")
    assert code == 1 and "chmod 600" in err and d.tokens["admin"] not in err, err
    os.chmod(d.token_file("admin"), 0o600)
    code, _, err = d.as_role("admin", "jobs", env={"BRR_TLS_CA": "", "BRR_ENDPOINT": "eeg.lab.example:7443"})
    assert code == 2 and "unencrypted" in err, err


def wrong_servers(d, tmp):
    tls("init", f"{tmp}/stranger")
    code, _, err = d.as_role("admin", "jobs", ca=f"{tmp}/stranger/ca.crt")
    assert code == 4 and "certificate" in err and "no daemon answers" not in err, (code, err)
    code, _, err = d.as_role("admin", "jobs", ca=f"{SOURCE}/README.md")
    assert code == 1 and "README.md" in err and "PEM" in err, (code, err)
    code, _, err = d.as_role("admin", "jobs", env={"BRR_TLS_CA": ""})
    assert code == 4 and "TLS" in err, (code, err)
    d.until(lambda: d.failures()["tls_handshake"] >= 1, "a failed handshake")
    assert "reason=tls_handshake" in d.read_log()


def serial(d):
    context = ssl.create_default_context(cafile=f"{d.ca}/ca.crt")
    with socket.create_connection(("127.0.0.1", d.tcp), timeout=PATIENCE) as s, context.wrap_socket(s, server_hostname="localhost") as t:
        return t.getpeercert()["serialNumber"]


def http_serial(d):
    context = ssl.create_default_context(cafile=f"{d.ca}/ca.crt")
    with socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE) as s, context.wrap_socket(s, server_hostname="localhost") as t:
        return t.getpeercert()["serialNumber"]


def reload_while_connected(d):
    first = serial(d)
    env = {**os.environ, "BRR_ENDPOINT": f"127.0.0.1:{d.tcp}", "BRR_TLS_CA": f"{d.ca}/ca.crt", "BRR_TOKEN_FILE": d.token_file("submit")}
    watch = subprocess.Popen([f"{BIN}/brrctl", "metrics", "brrd_process_uptime", "--watch", "--interval", "0.1", "--json"], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "uptime" in watch.stdout.readline()
    tls("renew", d.ca)
    d.until(lambda: serial(d) != first, "another certificate")
    d.until(lambda: http_serial(d) != first, "another certificate over HTTP")
    assert d.as_role("read", "jobs")[0] == 0
    for _ in range(3):
        assert "uptime" in watch.stdout.readline(), "the connection lives on"
    second = serial(d)
    with open(f"{d.ca}/server.key", encoding="utf-8") as f:
        key = f.read()
    secret_file(f"{d.ca}/server.key", openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout"))
    d.until(lambda: "does not belong to the certificate" in d.read_log(), "a foreign key")
    assert serial(d) == second and d.as_role("read", "jobs")[0] == 0, "the pair before stays in use"
    secret_file(f"{d.ca}/server.key", key)
    with open(f"{d.ca}/tokens", encoding="utf-8") as f:
        tokens = f.read()
    with open(f"{d.ca}/tokens", "a", encoding="utf-8") as f:
        f.write("admin half-a-line\n")
    d.until(lambda: "2 words" in d.read_log(), "a bad line")
    assert d.as_role("read", "jobs")[0] == 0, "the tokens before stay in use"
    with open(f"{d.ca}/tokens", "w", encoding="utf-8") as f:
        f.write(tokens)
    before = d.read_log().count('what="certificate"')
    d.process.send_signal(1)
    d.until(lambda: d.read_log().count('what="certificate"') > before, "SIGHUP")
    d.until(lambda: "configuration reloaded" in d.read_log(), "the configuration")
    tls("revoke", d.ca, "--name", "submit")
    assert watch.wait(timeout=PATIENCE) == 1, "a live call ends when its token is revoked"
    assert "[TOKEN_REVOKED]" in watch.stderr.read()


def client_certificates(tmp):
    tls("init", f"{tmp}/foreign")
    d = Secured(tmp, [f"tls.client_ca={tmp}/tls/ca.crt"], roles=()).start()
    d.tokens["read"] = d.new_token("read", "bed")
    tls("client", d.ca, "--name", "bed-7")
    tls("client", f"{tmp}/foreign", "--name", "thief")
    openssl("req", "-new", "-key", f"{d.ca}/bed-7.key", "-subj", "/CN=bed-6", "-out", f"{tmp}/old.csr")
    openssl("x509", "-req", "-in", f"{tmp}/old.csr", "-CA", f"{d.ca}/ca.crt", "-CAkey", f"{d.ca}/ca.key", "-set_serial", "7", "-days", "0", "-out",
            f"{tmp}/old.crt")
    d.until(lambda: d.as_role("bed", "jobs", *of(f"{d.ca}/bed-7"))[0] == 0, "a client certificate")
    time.sleep(1)
    assert d.refused("bed", "jobs") == "CERTIFICATE_MISSING"
    assert d.refused("bed", "jobs", *of(f"{tmp}/foreign/thief")) == "CERTIFICATE_FOREIGN_CA"
    assert d.refused("bed", "jobs", "--tls-cert", f"{tmp}/old.crt", "--tls-key", f"{d.ca}/bed-7.key") == "CERTIFICATE_EXPIRED"
    assert d.refused("bed", "jobs", "--tls-cert", f"{d.ca}/server.crt", "--tls-key", f"{d.ca}/server.key") == "CERTIFICATE_INVALID"
    assert d.refused(None, "jobs", *of(f"{d.ca}/bed-7")) == "TOKEN_MISSING", "a certificate does not replace the token"
    failures, log = d.failures(), d.read_log()
    for reason in ("certificate_missing", "certificate_foreign_ca", "certificate_expired", "certificate_invalid"):
        assert failures[reason] == 1 and f"reason={reason.upper()}" in log, (reason, failures)
    assert "principal=certificate:thief" in log, log
    code, _, err = d.as_role("bed", "jobs", "--tls-cert", f"{d.ca}/bed-7.crt", "--tls-key", f"{d.ca}/server.key")
    assert code == 1 and f"--tls-key {d.ca}/server.key does not belong to --tls-cert" in err, err
    os.chmod(f"{d.ca}/bed-7.key", 0o640)
    code, _, err = d.as_role("bed", "jobs", *of(f"{d.ca}/bed-7"))
    assert code == 1 and "chmod 600" in err, err
    return d


def of(pair):
    return ["--tls-cert", f"{pair}.crt", "--tls-key", f"{pair}.key"]


def signs_in(d):
    """A form gives a cookie that is no token and outlives the daemon; other sites and other names get nothing."""
    context = ssl.create_default_context(cafile=f"{d.ca}/ca.crt")

    def ask(method, path, body=None, **headers):
        c = client.HTTPSConnection("127.0.0.1", d.port, context=context, timeout=PATIENCE)
        c.request(method, path, body, {"Accept": "text/html", **headers})
        answer = c.getresponse()
        answer.read()
        c.close()
        return answer.status, (answer.headers["Set-Cookie"] or "").split(";")[0]

    form, own = f"next=/jobs&token={d.tokens['read']}", f"https://127.0.0.1:{d.port}"
    status, cookie = ask("POST", "/login", form, Origin=own)
    assert status == 303 and cookie.startswith("__Host-brrd=1t") and d.tokens["read"] not in cookie, (status, cookie)
    assert ask("GET", "/jobs", Cookie=cookie) == (200, ""), "a new cookie is not renewed at once"
    assert ask("POST", "/login", form, Origin="https://evil.example")[0] == 403
    assert ask("POST", "/logout", "", Cookie=cookie, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask("GET", "/jobs", Cookie=cookie, Host="evil.example")[0] == 421
    assert ask("GET", "/jobs", Cookie=cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))[0] == 401
    assert ask("GET", "/metrics", Cookie=cookie, Host="evil.example")[0] == 200, "metrics have no names"
    return lambda: ask("GET", "/jobs", Cookie=cookie)


def wait_until_ready(d):
    """A start looks for the snapshots of streams first."""
    deadline = time.time() + PATIENCE
    while True:
        try:
            assert "ready" in d.scrape("/readyz")
            return
        except OSError as e:
            assert e.code == 503 and time.time() < deadline, e
        time.sleep(0.05)


def http(d):
    wait_until_ready(d)
    assert d.scrape("/healthz") == "ok\n"
    assert "brrd_auth_failures_total" in d.scrape(token=d.tokens["read"])
    assert "serving" in d.scrape("/", token=d.tokens["read"])
    for path, token in (("/metrics", None), ("/metrics", "brr_wrong"), ("/", None)):
        try:
            d.scrape(path, token)
        except OSError as e:
            assert e.code == 401 and "Bearer" in e.headers["WWW-Authenticate"], e
            continue
        raise AssertionError(f"{path} was shown to {token}")


def audit(d):
    log = d.read_log()
    wanted = r'msg="audit" principal=%s role=%s listener=%s method=%s outcome=%s seconds=[0-9.]+ peer=127\.0\.0\.1:[0-9]+ %s reason=[A-Z_]+'
    for line in (("token:submit", "submit", "tcp", "/brr.v1.Jobs/Cancel", "not_found", "job=none-1"), ("token:admin", "admin", "tcp", "/brr.v1.Models/Unload", "not_found", "about=nothing")):
        assert re.search(wanted % line, log), (line, log)


def tokens_of_beds(tmp):
    """One command for twenty recorders: each token opens streams of its bed alone; a bad line leaves the file as it was."""
    lab, beds = f"{tmp}/tls", f"{tmp}/beds.txt"
    with open(beds, "w", encoding="utf-8") as f:
        f.write("# ward 3\nbed-1\n\nbed-2 # at the window\n")
    shown = dict(line.split() for line in tls("token", lab, "--role", "stream", "--from", beds).splitlines())
    lines = open(f"{lab}/tokens", encoding="utf-8").read().splitlines()[-2:]
    for line, bed in zip(lines, ("bed-1", "bed-2")):
        assert line == f"stream {bed} {hashlib.sha256(shown[bed].encode()).hexdigest()} names={bed}", (line, shown)
    for text, words in (("bed-3\nbed/3\n", ("bed/3", ":2:")), ("bed-3\nbed 9\n", ("'bed 9'", ":2:")), ("bed-3\n\nbed-3\n", ("twice", ":3:")),
                        ("bed-3\nbed-1\n", ("'bed-1'", "valid token already")), ("# none\n", ("names no bed",))):
        with open(beds, "w", encoding="utf-8") as f:
            f.write(text)
        error = tls("token", lab, "--role", "stream", "--from", beds, fails=True)
        assert all(word in error for word in words), (text, error)
        assert open(f"{lab}/tokens", encoding="utf-8").read().splitlines()[-2:] == lines, text


def successors(tmp):
    """A name is one principal of one role; its next token lives beside the present one for a while."""
    lab = f"{tmp}/successors"
    tls("init", lab)
    text = lambda: open(f"{lab}/tokens", encoding="utf-8").read()
    before = text()
    error = tls("token", lab, "--role", "stream", "--name", "admin", fails=True)
    assert "named 'admin', of the role admin" in error and "--replace" in error and text() == before, error
    first = tls("token", lab, "--role", "read", "--name", "screen", "--answer", "--names", "icu-*", "--until", "2099-12-31").strip()
    one = ("token", lab, "--role", "read", "--name", "y")
    assert "has a [ without its ]" in tls(*one, "--names", "icu-*,bed-[1", fails=True)
    for words, part in ((("--role", "admin"), "keeps role and words"), (("--all",), "keeps role and words"), (("--for", "soon"), "no time")):
        assert part in tls("token", lab, "--name", "screen", "--replace", *words, fails=True)
    assert "no valid token named 'x'" in tls("token", lab, "--name", "x", "--replace", fails=True)
    assert "--replace" in tls("token", lab, "--role", "read", "--name", "y", "--for", "1h", fails=True)
    os.chmod(f"{lab}/tokens", 0o640)
    begun = time.time()
    second = tls("token", lab, "--name", "screen", "--replace", "--for", "30m").strip()
    assert os.stat(f"{lab}/tokens").st_mode & 0o777 == 0o640
    sha = lambda token: hashlib.sha256(token.encode()).hexdigest()
    old, new = text().splitlines()[-2:]
    found = re.fullmatch(f"read screen {sha(first)} answer names=icu-\\* until=(.*)Z", old)
    assert found, old
    until_s = calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M"))
    assert begun + 1800 <= until_s <= time.time() + 1860, (old, begun)  # in whole minutes
    assert new == f"read screen {sha(second)} answer names=icu-*", new
    tls("token", lab, "--name", "screen", "--replace", "--for", "2h")
    assert text().splitlines()[-3] == old, "what ends earlier ends no later"
    return text()


def bad_files_at_start(tmp):
    """brrd names the key and the fix, and does not start."""
    lab = f"{tmp}/tls"
    with open(f"{tmp}/empty", "w", encoding="utf-8"):
        pass
    bad = {(f"auth.tokens_file={tmp}/none",): ("auth.tokens_file", "No such file"), (f"tls.key={tmp}/none",): ("tls.key", "No such file"),
           (f"tls.cert={tmp}/empty",): ("tls.cert", "PEM"), (f"tls.key={lab}/ca.key",): ("tls.key", "does not belong to the certificate"),
           (f"tls.client_ca={tmp}/empty",): ("tls.client_ca", "PEM")}
    openssl("req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "9", "-subj", "/CN=localhost", "-keyout", f"{tmp}/weak.key", "-out", f"{tmp}/weak.crt")
    os.chmod(f"{tmp}/weak.key", 0o600)
    bad[(f"tls.cert={tmp}/weak.crt", f"tls.key={tmp}/weak.key")] = ("RSA key of 1024 bits", "2048")
    bad[(f"paths.cache={tmp}/empty/cache",)] = ("paths.cache", "Not a directory")
    for sets, words in bad.items():
        check_start(tmp, sets, words)
    for name, mode, fix in (("server.key", 0o604, "chmod 600"), ("tokens", 0o666, "chmod 640")):
        os.chmod(f"{lab}/{name}", mode)
        check_start(tmp, (), (name, fix))
        os.chmod(f"{lab}/{name}", 0o600)


def check_start(tmp, sets, words):
    os.makedirs(f"{tmp}/bad", exist_ok=True)
    d = Secured(tmp, sets, roles=())
    d.dir, d.socket = f"{tmp}/bad", f"{tmp}/bad/s.sock"
    r = subprocess.run(d.command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert r.returncode == 1 and all(word in r.stderr for word in words), (sets, r.returncode, r.stderr)
    before = sorted(os.listdir(d.dir))
    checked = subprocess.run([*d.command(), "--check-config"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert checked.returncode == 1 and not checked.stdout and all(word in checked.stderr for word in words), (sets, checked)
    assert sorted(os.listdir(d.dir)) == before


def nothing_secret(d, said):
    outputs = {"log": d.read_log(), "metrics": d.ctl("metrics")[1], "doctor": "".join(d.ctl("doctor")[1:]), "said": said,
               "check": subprocess.run([*d.command(), "--check-config"], capture_output=True, text=True, check=False).stdout}
    for root, _, names in os.walk(f"{d.dir}/results"):
        for name in names:
            with open(os.path.join(root, name), "rb") as f:
                outputs[name] = f.read().decode("latin-1")
    secrets = d.secrets()
    assert len(secrets) > 6, secrets
    for secret in secrets:
        for name, text in outputs.items():
            assert secret not in text, f"{name} holds a secret"


def main():
    with temporary() as tmp:
        d = Secured(tmp).start()
        d.until(lambda: d.as_role("admin", "jobs")[0] == 0, "tokens")
        files_of_init(tmp)
        renewed(tmp)
        successors(tmp)
        roles(d)
        http(d)
        page = signs_in(d)
        audit(d)
        reload_while_connected(d)
        wrong_servers(d, tmp)
        refusals(d)
        said = "".join(d.as_role("wrong", "jobs")[1:])
        nothing_secret(d, said)
        assert d.stop() == 0
        d.start()
        assert page() == (200, ""), "a restart signs nobody out"
        assert d.stop() == 0
        tokens_of_beds(tmp)
        bad_files_at_start(tmp)
    with temporary() as tmp:
        d = client_certificates(tmp)
        nothing_secret(d, "")
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
