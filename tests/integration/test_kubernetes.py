#!/usr/bin/env python3
"""deploy/kubernetes: every document is a value of Kubernetes' own type (npm), their names refer to each other, the configuration in them makes
a daemon whose probes run on its socket, and the exit codes of the job's policy are those of `brrd run`."""
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

import yaml

from daemon import BIN, PATIENCE, SOURCE, free_port, temporary
from npm import npm_modules

FOLDER = f"{SOURCE}/deploy/kubernetes"
MODULES = {"v1": "core/v1", "apps/v1": "apps/v1", "batch/v1": "batch/v1"}


def documents(name):
    with open(f"{FOLDER}/{name}", encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


def check_types(all_documents, tmp):
    """A wrong word among them is seen."""
    modules = npm_modules(f"{SOURCE}/tests/integration/kubernetes")
    program = ""
    for i, d in enumerate(all_documents):
        program += f"import type {{ {d['kind']} as T{i} }} from 'kubernetes-types/{MODULES[d['apiVersion']]}';\nexport const d{i}: T{i} = {json.dumps(d)};\n"
    for wrong in (None, ("podFailurePolicy", "podFailurePolicies"), ('"publishNotReadyAddresses"', '"publishUnreadyAddresses"'), ('"onExitCodes"', '"onExitCode"')):
        assert not wrong or wrong[0] in program
        with open(f"{tmp}/all.ts", "w", encoding="utf-8") as f:
            f.write(program.replace(*wrong, 1) if wrong else program)
        with open(f"{tmp}/tsconfig.json", "w", encoding="utf-8") as f:
            json.dump({"compilerOptions": {"strict": True, "noEmit": True, "skipLibCheck": True, "module": "esnext", "moduleResolution": "bundler", "types": [], "target": "es2022",
                                           "paths": {"kubernetes-types/*": [f"{modules}/kubernetes-types/*"]}}, "files": ["all.ts"]}, f)
        r = subprocess.run(["node", f"{modules}/typescript/bin/tsc", "-p", tmp], capture_output=True, text=True, timeout=PATIENCE)
        assert (r.returncode != 0) == bool(wrong), r.stdout[:3000]


def check_pod(template, claims):
    """Mounts name volumes, volumes name claims, and nothing more is allowed than the daemon needs."""
    spec = template["spec"]
    (container,) = spec["containers"]
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == set(volumes)
    assert {v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v} == claims
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 900 and spec["terminationGracePeriodSeconds"] > 100
    own = container["securityContext"]
    assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"] and own["capabilities"] == {"drop": ["ALL"]}
    with open(f"{SOURCE}/Dockerfile", encoding="utf-8") as f:
        assert "--uid 900" in f.read()
    return container


def check_daemon(config, container, tmp):
    """The daemon of the ConfigMap, at other ports and paths."""
    subprocess.run([f"{BIN}/brrctl", "tls", "init", f"{tmp}/tls"], check=True, capture_output=True)
    port = free_port()
    text = config.replace("/etc/brrd/tls", f"{tmp}/tls").replace("0.0.0.0:7443", f"127.0.0.1:{free_port()}").replace("0.0.0.0:9464", f"127.0.0.1:{port}")
    for path in ("/run/brrd", "/data", "/cache", "/results"):
        text = re.sub(rf"(?<=[ ]){path}(?=[,/ ])", f"{tmp}{path}", text)
        os.makedirs(f"{tmp}{path}")
    with open(f"{tmp}/daemon.yaml", "w", encoding="utf-8") as f:
        f.write(text)
    with open(f"{tmp}/log", "wb") as log:
        process = subprocess.Popen([f"{BIN}/brrd", "--config", f"{tmp}/daemon.yaml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    blind = ssl.create_default_context()  # as the kubelet, which does not look at the certificate
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE

    def status(path):
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=20, context=blind) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return 0

    try:
        deadline = time.time() + PATIENCE
        while status("/readyz") != 200:
            assert process.poll() is None and time.time() < deadline, open(f"{tmp}/log", encoding="utf-8").read()
            time.sleep(0.1)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            command = [word.replace("/run/brrd", f"{tmp}/run/brrd") for word in container[probe]["exec"]["command"]]
            assert command[0] == "brrctl", probe
            r = subprocess.run([f"{BIN}/{command[0]}", *command[1:]], capture_output=True, text=True, timeout=PATIENCE)
            assert r.returncode == 0, (probe, r)
        assert status("/healthz") == 200
        assert status("/metrics") == 401
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def check_compose(tmp):
    """deploy/compose: the configuration in it is one with TLS and tokens, volumes are declared, and the daemon sees no key of the authority."""
    with open(f"{SOURCE}/deploy/compose/compose.yaml", encoding="utf-8") as f:
        compose = yaml.safe_load(f)
    mounted = {name: {v.split(":")[0] for v in s["volumes"] if v[0] not in "./$"} for name, s in compose["services"].items()}
    assert set().union(*mounted.values()) == set(compose["volumes"]) and "ca" not in mounted["brrd"], mounted
    daemon = compose["services"]["brrd"]
    assert daemon["read_only"] and daemon["cap_drop"] == ["ALL"] and {p.split(":")[1] for p in daemon["ports"]} == {"7443", "9464"}
    text = compose["configs"]["daemon"]["content"].replace("${BRRD_HOST:-localhost}", "localhost").replace("/tls/", f"{tmp}/tls/")
    for path in ("/data", "/cache", "/results"):
        text = re.sub(rf"(?<=[ ]){path}(?=[,/ ])", f"{tmp}{path}", text)
    with open(f"{tmp}/compose.yaml", "w", encoding="utf-8") as f:
        f.write(text)
    r = subprocess.run([f"{BIN}/brrd", "--config", f"{tmp}/compose.yaml", "--check-config"], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r


def check_run(job, container):
    """The codes that `brrd run --help` lists: 75 goes on, 1 and 2 end the job; 0 is success, and nothing else is decided."""
    rules = {code: r["action"] for r in job["spec"]["podFailurePolicy"]["rules"] for code in r.get("onExitCodes", {}).get("values", [])}
    text = subprocess.run([f"{BIN}/brrd", "run", "--help"], capture_output=True, text=True, check=True).stdout
    line = re.search(r"exit code: (.*)", text)[1]
    assert rules == {75: "Ignore", 1: "FailJob", 2: "FailJob"} and [int(n) for n in re.findall(r"\b\d+\b", line)] == [0, 1, 2, 75], (rules, line)
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never" and container["args"][0] == "run"


def main():
    service, run = documents("brrd.yaml"), documents("job.yaml")
    with temporary() as tmp:
        by_kind = {d["kind"]: d for d in service}
        deployment, (job,) = by_kind["Deployment"], [d for d in run if d["kind"] == "Job"]
        claims = {d["metadata"]["name"] for d in service if d["kind"] == "PersistentVolumeClaim"}
        container = check_pod(deployment["spec"]["template"], claims)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert labels == deployment["spec"]["selector"]["matchLabels"] == by_kind["Service"]["spec"]["selector"]
        assert by_kind["Service"]["spec"]["publishNotReadyAddresses"], "a pod that is not ready has streams"
        with open(f"{FOLDER}/brrd.yaml", encoding="utf-8") as f:
            head = f.read().split("apiVersion")[0]
        assert set(re.findall(r"--from-file=(\S+)", head)) == {"tls/server.crt", "tls/server.key", "tls/tokens"}, "the secret has the daemon's files alone"
        assert {p["name"] for p in container["ports"]} == {p["targetPort"] for p in by_kind["Service"]["spec"]["ports"]}
        check_daemon(by_kind["ConfigMap"]["data"]["daemon.yaml"], container, tmp)
        check_compose(tmp)
        check_run(job, check_pod(job["spec"]["template"], {run[0]["metadata"]["name"]}))
        check_types(service + run, tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
