#!/usr/bin/env python3
"""docs/mission.md, as far as a program can tell: each row says what is there and why not more; the files, links, keys, metrics and commands that it
names exist; its figures are those of the pages that it names and of the sources."""
import os
import re
import subprocess
import sys
import unittest

BIN, SOURCE = os.environ["BRR_BIN"], os.environ["BRR_SOURCE_DIR"]
OPEN = ("◐", "○")


def text(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as f:
        return f.read()


PAGE = text("docs/mission.md")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith(tuple(f"| {mark}" for mark in OPEN))]
SAID = [quoted for row in ROWS for cell in row for quoted in re.findall(r"`([^`]+)`", cell)]


def row(asked):
    (found,) = [r for r in ROWS if r[1].startswith(asked)]
    return " | ".join(found)


class Mission(unittest.TestCase):
    def test_each_row_is_whole(self):
        self.assertGreater(len(ROWS), 55)
        for r in ROWS:
            self.assertTrue(len(r) == 4 and r[0] in OPEN and r[1] and r[3], r)
        self.assertEqual(len({r[1] for r in ROWS}), len(ROWS))

    def test_links_and_files_exist(self):
        for page, anchor in re.findall(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)", PAGE):
            heads = [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text(f"docs/{page}"), re.M)]
            self.assertTrue(not anchor or anchor in heads, (page, anchor))
        paths = re.findall(r"\b((?:tests|kernels|configs|client|deploy|tools)/[\w./-]*\w)", PAGE)
        self.assertGreater(len(paths), 6)
        for path in paths:
            self.assertTrue(os.path.exists(f"{SOURCE}/{path}"), path)

    def test_keys_metrics_and_commands_exist(self):
        keys = set(re.findall(r"^\| ([a-z_]+(?:\.[a-z_0-9]+)*) \|", text("docs/jobs.md"), re.M))
        for quoted in SAID:
            key = quoted.split(":")[0]
            if re.fullmatch(r"(training|model|limits|data|output)\.[\w.]+", key):
                self.assertIn(key, keys)
            if quoted.startswith("brrd_"):
                self.assertIn(f"| {quoted} |", text("docs/operations.md"))
            if quoted.startswith("brrctl "):
                words = quoted.split()[1:]
                r = subprocess.run([f"{BIN}/brrctl", words[0], "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                self.assertEqual(r.returncode, 0, (quoted, r.stderr))

    def test_the_network_has_two_sizes(self):
        self.assertIn("32,606,439 (13,397,799 with `mixer: conv`)", text("docs/models.md"))
        self.assertTrue("32.6" in row("13.4 million") and "13.4" in row("13.4 million"))

    def test_what_the_rows_say_of_the_sources_holds(self):
        self.assertIn("nvtx", text("kernels/cuda/graph.cu").lower())
        self.assertIn("ERL_NIF_INIT(brr_scan", text("client/erlang/brr_scan_nif.c"))
        for name in ("train", "train_a100"):
            self.assertRegex(text(f"configs/{name}.yaml"), r"(?m)^  wall_clock: 24h.*\n  auto_resume: true")
        path = text("tools/gpu_path.sh")
        self.assertTrue("utilization_ratio" in path and "training-memory-mib-peak" in path and "training.batch_size=64" in path)
        dockerfile = text("Dockerfile")
        self.assertTrue(all(f"AS {stage}" in dockerfile for stage in ("build-cuda", "runtime-cuda")))

    def test_figures_are_those_of_the_pages(self):
        for asked, page, figures in (("more than 100,000 times", "geodesic.md", ("8,400 times",)), ("R² above", "geodesic.md", (".0153",)),
                                     ("ONNX INT8", "scan.md", ("0.56 ms", "0.67 ms", "111 to 140")), ("genomes and", "burst.md", ("55,357 and 1,552", "two examples"))):
            row(asked)
            for f in figures:
                self.assertIn(f, re.sub(r"\s+", " ", text(f"docs/{page}")), (asked, page))
        self.assertTrue("8,400 times" in row("more than") and "111 to 140" in row("ONNX INT8") and "four" in row("genomes and"))


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
