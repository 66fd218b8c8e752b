#!/usr/bin/env python3
"""deploy/grafana and deploy/prometheus: the dashboard is what its table makes and fits Grafana's own types; each of its expressions
returns a series from a real Prometheus that scraped daemons at work; each alert is silent on a sound daemon and rings on its cause."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import yaml

from daemon import MINI, PATIENCE, SOURCE, Daemon, free_port, make_corpus, temporary, until
from npm import npm_modules
from test_device_health import EMULATED, Machine

HERE = f"{SOURCE}/tests/integration/grafana"
RULES = f"{SOURCE}/deploy/prometheus/rules.yml"


def made():
    spec = importlib.util.spec_from_file_location("make_dashboard", f"{SOURCE}/deploy/grafana/make_dashboard.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.text()


def check_rules(tmp):
    with open(RULES, encoding="utf-8") as f:
        names = [r["alert"] for g in yaml.safe_load(f)["groups"] for r in g["rules"]]
    firing = ", ".join("{labels: '{alertname=\"%s\"}', value: 1}" % n for n in names)
    with open(f"{HERE}/rules_test.yml", encoding="utf-8") as f, open(f"{tmp}/rules_test.yml", "w", encoding="utf-8") as out:
        out.write(f.read().replace("RULES", RULES).replace("ALL", firing, 1))
    r = subprocess.run(["promtool", "test", "rules", f"{tmp}/rules_test.yml"], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stdout + r.stderr


def check_types(text, modules, tmp):
    """The dashboard as a value of Grafana's type; a wrong word in it is seen."""
    with open(f"{HERE}/dashboard.ts", encoding="utf-8") as f:
        program = f.read()
    for wrong in (False, True):
        json_text = text.replace('"mode": "thresholds"', '"mode": "threshold"', 1) if wrong else text
        with open(f"{tmp}/dashboard.ts", "w", encoding="utf-8") as f:
            f.write(program.replace("= DASHBOARD", f"= {json_text}"))
        with open(f"{tmp}/tsconfig.json", "w", encoding="utf-8") as f:
            json.dump({"compilerOptions": {"strict": True, "noEmit": True, "skipLibCheck": True, "module": "esnext", "moduleResolution": "bundler", "types": [],
                                           "target": "es2022", "paths": {"@grafana/schema": [f"{modules}/@grafana/schema"]}}, "files": ["dashboard.ts"]}, f)
        r = subprocess.run(["node", f"{modules}/typescript/bin/tsc", "-p", tmp], capture_output=True, text=True, timeout=PATIENCE)
        assert (r.returncode != 0) == wrong, r.stdout[:2000]


def expressions(text):
    for panel in json.loads(text)["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], re.sub(r"\$__rate_interval", "1m", target["expr"].replace("$instance", ".*"))


class Prometheus:
    def __init__(self, tmp, ports):
        self.port, self.log = free_port(), f"{tmp}/prometheus.log"
        with open(f"{tmp}/prometheus.yml", "w", encoding="utf-8") as f:
            json.dump({"global": {"scrape_interval": "1s"}, "rule_files": [RULES],
                       "scrape_configs": [{"job_name": "brrd", "static_configs": [{"targets": [f"127.0.0.1:{p}" for p in ports]}]}]}, f)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["prometheus", f"--config.file={tmp}/prometheus.yml", f"--storage.tsdb.path={tmp}/tsdb",
                                             f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        except OSError:
            assert self.process.poll() is None, open(self.log, encoding="utf-8").read()
            return []

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


def work(d, tmp):
    """A stream in real time, and a training and a geodesic job without end, each on a device."""
    code, _, err = d.ctl("submit", f"{SOURCE}/configs/geodesic.yaml", "--set", "training.epochs=1000000", "--set", "device=cpu:1")
    assert code == 0, err
    code, last, err = d.submit(*MINI, f"data.source=file://{tmp}/data", "training.max_steps=1000000", "training.epochs=100000", "device=cpu:0", watch=False)
    assert code == 0, (last, err)
    recordings = subprocess.run(["find", f"{tmp}/data", "-name", "*.edf"], capture_output=True, text=True, check=True).stdout.split()
    code, _, err = d.ctl("stream", recordings[0], "--model", "line_length", "--realtime", "60", "--output", f"{tmp}/x.tsv")
    assert code == 0, err


def check_series(text):
    with temporary() as tmp, temporary() as other:
        make_corpus(f"{tmp}/data", 5, patients=2, hours=0.1)
        d, machine = Daemon(tmp, ["devices=[cpu:0, cpu:1]"]).start(), Machine(other)
        machine.say()
        gpu = machine.start()
        prometheus = Prometheus(tmp, (d.port, gpu.port))
        try:
            until(lambda: len(prometheus.ask("brrd_build_info")) == 2, "Prometheus does not see both")
            work(d, tmp)
            pairs = list(expressions(text))
            assert len(pairs) > 40

            def all_have_data():
                pairs[:] = [(title, e) for title, e in pairs if not prometheus.ask(e)]
                return not pairs
            until(all_have_data, lambda: pairs, pause_s=0.5)
        finally:
            prometheus.close()
            gpu.stop()
            d.stop()


def main():
    with open(f"{SOURCE}/deploy/grafana/brrd.json", encoding="utf-8") as f:
        text = f.read()
    assert text == made(), "run deploy/grafana/make_dashboard.py > deploy/grafana/brrd.json"
    with temporary() as tmp:
        check_rules(tmp)
        check_types(text, npm_modules(HERE), tmp)
    if not os.path.exists(EMULATED):
        print("skipped: package: no emulated CUDA backend in this build, which the panels of a GPU need")
        return 0
    check_series(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
