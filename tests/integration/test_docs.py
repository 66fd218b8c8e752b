#!/usr/bin/env python3
"""The tables of the pages are those of the programs: every key of a job file with its default in docs/jobs.md, every key of the
daemon in configs/daemon.yaml, every metric in docs/operations.md, and every BRR_ variable that is read in one of three tables."""
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = os.environ["BRR_BIN"]
SOURCE = os.environ["BRR_SOURCE_DIR"]
READS = re.compile(r'(?:getenv|env_is_one)\("(BRR_\w+)"|environ(?:\.get\(|\.setdefault\(|\[)"(BRR_\w+)"|\$\{(BRR_\w+):-')


def text(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as f:
        return f.read()


def printed(*command):
    lines = subprocess.run([f"{BIN}/{command[0]}", *command[1:]], check=True, capture_output=True, text=True).stdout.splitlines()
    keys = {}
    for key, accepts in zip(lines[::2], lines[1::2]):
        found = re.search(r"; (?:default (.*)|(required))$", accepts)
        assert found, accepts
        keys[key.split()[0]] = found[1] or found[2]
    return keys


def rows(page, pattern):
    return [m for line in text(page).splitlines() for m in re.findall(rf"^\| ({pattern}) \|", line)]


def figure(file, path):
    """The object of a file of results that a path names: keys, indices, and `key=value` for elements of a list."""
    content = text(f"tests/bench/results/{file}")
    try:
        node = json.loads(content)
    except json.JSONDecodeError:
        node = [json.loads(line) for line in content.splitlines() if line.strip()]
    for part in filter(None, map(str.strip, path.split(","))):
        key, equals, value = part.partition("=")
        if equals:
            node = [n for n in node if str(n.get(key)) == value]
        else:
            node = node[int(part)] if isinstance(node, list) else node[part]
    if isinstance(node, list):
        (node,) = node  # a path names one object
    return node


def yaml_keys(page):
    """Paths of the keys of a configuration, those behind a comment sign too."""
    at, keys = [], []
    for line in text(page).splitlines():
        found = re.match(r"^( *)(?:# )?( *)(\w+):(?: |$)", line)
        if found:
            depth = len(found[1] + found[2])
            at = [(d, k) for d, k in at if d < depth] + [(depth, found[3])]
            keys.append(".".join(k for _, k in at))
    return keys


# Documented commands with a live source, a hook or a certificate, by their words and options: the test that runs them, with somebody
# who receives. docs/ward.md stands in no row: test_ward_page.py runs each of its lines.
RECEIVED = {
    "alarms": "test_answers.py", "alarms --json": "test_answers.py", "alarms --open": "test_answers.py",
    "alarms ack --person": "test_answers.py", "alarms export --as --output --since": "test_ward_page.py",
    "alarms mark --person": "test_answers.py", "alarms note --person": "test_answers.py", "alarms report --since": "test_answers.py",
    "alarms silence --for --person": "test_browser_ward.py", "alarms standby": "test_answers.py",
    "alarms test": "test_answers.py", "hooks test": "test_alarm_hooks.py", "lsl": "test_lsl.py",
    "lsl in": "test_lsl.py", "stream --as-live --realtime": "test_alarm_hooks.py",
    "stream --client --follow --model": "test_stream_follow.py",
    "stream --client --live -": "test_stream_follow.py",
    "stream --client --live --model -": "test_stream_follow.py", "stream --follow": "test_stream_follow.py",
    "stream --replay -": "test_stream_follow.py", "stream --move-after --realtime": "test_stream_move.py",
    "stream --model": "test_tls.py", "tls client": "test_tls.py", "tls client --name": "test_tls.py",
    "tls init --host": "test_tls.py", "tls renew": "test_tls.py", "tls revoke --name": "test_tls.py",
    "tls token": "test_tls.py", "tls token --from --role": "test_tls.py",
    "tls token --all --answer --name --names --role": "test_answers.py",
    "tls token --answer --name --names --role": "test_tls.py", "tls token --name --replace": "test_tls.py",
    "tls token --name --role": "test_tls.py",
}
SCOPE = re.compile(r"brrctl (?:tls|hooks|alarms|lsl)\b|brrctl stream (?:- |.*--(?:live|follow|as-live|move-after))|BRR_TLS_CA=\S+ .*brrctl")


def received(page):
    """The commands of a page's text that RECEIVED must know: "alarms ack --person"; "-" is standard input."""
    lines = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    lines += re.findall(r"`([^`\n]+)`", "\n".join(line for line in page.splitlines() if not line.startswith("    ")))
    found = set()
    for command in (c for line in lines for c in re.split(r"; |&& ", re.sub(r" #.*", "", line)) if SCOPE.search(c)):
        words = command[command.index("brrctl "):].split()[1:]
        verbs = list(itertools.takewhile(lambda word: re.fullmatch(r"[a-z]+", word), words))[:2]
        found.add(" ".join([*verbs, *sorted(word for word in words if word.startswith("--")), *(["-"] if "-" in words else [])]))
    return found


class Pages(unittest.TestCase):
    def test_every_command_with_a_receiver_has_a_test(self):
        self.assertEqual(received("say `brrctl hooks list --all` or\n    sudo brrctl alarms ack bed-7 --new x  # now\n"), {"hooks list --all", "alarms ack --new"})
        pages = ("README.md", "docs/alarms.md", "docs/operations.md")
        self.assertEqual(set.union(*(received(text(page)) for page in pages)), set(RECEIVED))
        for command, test in RECEIVED.items():
            said = text(f"tests/integration/{test}")
            for module in re.findall(r"^from (\w+) import", said, re.M):
                said += text(f"tests/integration/{module}.py") if os.path.exists(f"{SOURCE}/tests/integration/{module}.py") else ""
            said += text("docs/ward.md") if test == "test_ward_page.py" else ""
            for word in command.split():
                self.assertRegex(said, rf"""["' ]{re.escape(word)}["' ]""", f"{test} runs no `brrctl {command}`")
        walked = text("tests/integration/test_ward_page.py")
        self.assertIn('OWN = ("apt install", "adduser", "systemctl")', walked)  # all that it leaves out
        self.assertIn("docs/ward.md", walked)

    def test_versions_agree(self):
        version = re.search(r"^project\(brr VERSION (\S+)", text("CMakeLists.txt"), re.M)[1]
        stated = {"CITATION.cff": r"^version: (\S+)", "client/python/pyproject.toml": r'^version = "(.*)"', "CHANGELOG.md": r"^## (\S+)",
                  "client/python/brr/__init__.py": r'^__version__ = "(.*)"', "deploy/kubernetes/brrd.yaml": r"image: brrd:(\S+)",
                  "deploy/kubernetes/job.yaml": r"image: brrd:(\S+)"}
        self.assertEqual({page: re.search(pattern, text(page), re.M)[1] for page, pattern in stated.items()}, dict.fromkeys(stated, version))

    def test_every_job_key_stands_once_as_the_program_knows_it(self):
        said = subprocess.run([f"{BIN}/brrctl", "keys", "--json"], check=True, capture_output=True, text=True).stdout.splitlines()
        keys = [json.loads(line) for line in said]
        every = ("kind", "name", "priority", "after", "device", "devices", "executor", "limits.wall_clock", "limits.cost", "limits.restarts", "limits.preemptible", "resources.nodes",
                 "resources.ranks", "resources.cpus_per_rank", "resources.gpus_per_rank", "resources.time",
                 "array.size", "array.index", "array.head")  # of all kinds there will be
        want = [(key["key"], "all" if key["key"] in every else ", ".join(key["kinds"]), "required" if key["required"] else key["default"],
                 key["accepts"].replace("|", ", "), key["meaning"]) for key in keys]
        lines = [line for line in text("docs/jobs.md").splitlines() if re.match(r"\| [a-z0-9_.]+ \|", line)]
        table = [tuple(c.strip() for c in line.strip("| ").split(" | ")) for line in lines]
        self.assertEqual(sorted(row for row in table if row[0] != "key"), sorted(want))

    def test_every_key_of_the_daemon_stands_once_in_its_commented_file(self):
        known = set(printed("brrd", "--help-config"))
        groups = {key.rsplit(".", 1)[0] for key in known if "." in key}
        found = [k for k in yaml_keys("configs/daemon.yaml") if not k.startswith("stores.") and k not in groups]
        self.assertEqual(sorted(found), sorted(known))

    def test_every_metric_stands_once(self):
        tables = ["daemon/metrics_table.c", *sorted(os.path.relpath(path, SOURCE) for path in glob.glob(f"{SOURCE}/lib/*/*.c"))]
        built = [name for table in tables for name in re.findall(r'(?:COUNTER|GAUGE|HISTOGRAM)\(\s*"(brrd_\w+)"', text(table))]
        self.assertGreater(len(built), 30)
        self.assertEqual(sorted(rows("docs/operations.md", r"brrd_\w+")), sorted(built))

    def test_every_figure_of_the_benchmarks_is_that_of_its_file(self):
        keys, compared = [], 0
        for line in text("docs/benchmarks.md").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
            if cells and cells[-1] == "row":
                keys = [cell.strip("`") for cell in cells[1:-1]]
            found = cells and re.fullmatch(r"`(\S+\.json)`(.*)", cells[-1])
            for key, shown in zip(keys, cells[1:-1]) if found else ():
                value = figure(found[1], found[2])
                for part in key.split("."):
                    value = value[part]
                shown = shown.replace(",", "")
                self.assertAlmostEqual(float(shown), value, delta=0.5001 * 10 ** -len(shown.partition(".")[2]), msg=f"{line}: {key}")
                compared += 1
        self.assertGreater(compared, 100)

    def test_the_changelog_begins_with_this_version(self):
        version = subprocess.run([f"{BIN}/brrd", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
        self.assertEqual(re.findall(r"^## (\S+)", text("CHANGELOG.md"), re.M)[0], version)

    def test_the_label_file_of_the_page_is_read(self):
        example = "".join(line[4:] + "\n" for line in re.findall(r"^    (?:onset|[0-9.]+)\t.*$", text("docs/labels.md"), re.M))
        self.assertEqual(example.count("\n"), 3)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", f"{folder}/night.edf")
            with open(f"{folder}/night_events.tsv", "w", encoding="utf-8") as f:
                f.write(example.replace("1310.0", "200.0").replace("42.5", "12.5"))
            said = subprocess.run([f"{BIN}/brrctl", "dataset", folder, "--json"], check=True, capture_output=True, text=True).stdout
        found = json.loads(said)["splits"]["all"]
        self.assertEqual((found["seizures"], round(found["seizure_s"], 1)), (2, 92.5))

    def test_files_and_commands_of_the_readme_exist(self):
        page = text("README.md")
        commands = re.findall(r"^  (\S+)", subprocess.run([f"{BIN}/brrctl", "help"], check=True, capture_output=True, text=True).stdout, re.M)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page) + re.findall(r"(?:configs|examples)/[\w./-]+\.(?:yaml|edf)", page):
            self.assertTrue(os.path.exists(f"{SOURCE}/{target}"), target)
        used = re.findall(r"(?:^    |; |&& |\| )brrctl (\w+)", page, re.M)
        self.assertGreater(len(used), 25)
        self.assertEqual(set(used) - set(commands), set())

    def test_the_exit_codes_of_the_help_are_those_of_the_page(self):
        said = subprocess.run([f"{BIN}/brrctl", "help"], check=True, capture_output=True, text=True).stdout
        codes = re.findall(r"(\d) ", re.search(r"Exit codes: (.*)", said)[1])
        self.assertEqual(len(codes), 5)
        self.assertEqual([c for c in rows("docs/operations.md", r"\d+") if c != "130"], codes)

    def test_every_variable_that_is_read_stands_once(self):
        folders = ("base", "lib", "kernels", "daemon", "client", "tools", "tests")
        files = [path for folder in folders for path in glob.glob(f"{SOURCE}/{folder}/**/*.*", recursive=True)]
        read = set()
        for path in [f"{SOURCE}/dev", *files]:
            if os.path.isfile(path) and (path.endswith("/dev") or re.search(r"\.(c|h|cc|cu|cuh|py|sh)$", path)):
                with open(path, encoding="utf-8") as f:
                    read |= {next(filter(None, groups)) for groups in READS.findall(f.read())}
        cells = [cell for page in ("docs/operations.md", "CONTRIBUTING.md", "tests/README.md") for cell in rows(page, r"BRR_[A-Z_, ]+")]
        told = [name for cell in cells for name in cell.split(", ")]
        self.assertIn("BRR_ISA", read)
        self.assertEqual(sorted(told), sorted(read))


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv[:1])
