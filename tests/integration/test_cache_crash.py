#!/usr/bin/env python3
"""kill -9 at any moment of a download or an eviction: no torn file is ever served, and what had arrived is not fetched again."""
import glob
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

from fake_s3 import FakeS3

DRIVER = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "mirror_driver")
KILLS, MIB, PART = 50, 1 << 20, 8 << 20


def longer(kills):
    """A factor for lives: on a slow machine, in which nothing was finished in KILLS of them, the next ones are longer and longer."""
    return max(1, kills / KILLS) ** 2


def thing(size, seed):
    """An object that begins with the SHA-256 of what follows."""
    rest = random.Random(seed).randbytes(size - 64)
    return hashlib.sha256(rest).hexdigest().encode() + rest


class Crash(unittest.TestCase):
    def setUp(self):
        self.s3 = FakeS3().__enter__()
        self.addCleanup(self.s3.__exit__)
        self.folder = tempfile.TemporaryDirectory(prefix="brr-test-")
        self.addCleanup(self.folder.cleanup)
        self.random = random.Random(4)
        self.ever = set()  # digests of every version of every object there was

    def put(self, key, size, seed):
        self.s3.objects[key] = thing(size, seed)
        self.ever.add(hashlib.sha256(self.s3.objects[key]).digest())

    def start(self, max_bytes, *prefixes):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and "proxy" not in k.lower()}
        return subprocess.Popen([DRIVER, "s3://eeg", self.s3.endpoint, self.folder.name, str(max_bytes), *prefixes],
                                env={**clean, **self.s3.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def live(self, seconds, *words):
        """One life of at most so many seconds; its output when it ended by itself, else None."""
        self.s3.life += 1
        child = self.start(*words)
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None
        self.assertEqual(child.returncode, 0, err)
        return out

    def entries(self):
        return [p for p in glob.glob(f"{self.folder.name}/objects/entries/*/*")]

    def assert_whole(self):
        for path in self.entries():
            with open(path, "rb") as f:
                self.assertIn(hashlib.sha256(f.read()).digest(), self.ever, "torn: " + path)

    def held_parts(self):
        """What journals of unfinished files say, with the objects' sizes: [(size, part), …]; torn last lines count as nothing."""
        held = []
        for path in glob.glob(f"{self.folder.name}/objects/partial/*/data.part.journal"):
            with open(path) as f:
                title, *lines = f.read().split("\n")
            if lines:  # else killed before the title was whole
                self.assertRegex(title, "^brrd-part 3 ")
                held += [(int(title.split()[2]), int(line.split()[0])) for line in lines[:-1] if re.fullmatch(r"\d+ [0-9a-f]{16}", line)]
        return held

    def asked(self):
        """Ranges that were asked for: [(size of the object, part), …]."""
        with self.s3.lock:
            gets = [r for r in self.s3.requests if r[0] == "GET" and r[1]]
        return [(len(self.s3.objects[r[1]]), int(r[3].removeprefix("bytes=").split("-")[0]) // PART) for r in gets]


class Downloads(Crash):
    def test_a_killed_download_serves_nothing_torn_and_goes_on_where_it_was(self):
        for i, size in enumerate((26 * MIB + 5, 33 * MIB + 9, 9 * MIB + 1)):  # sizes tell the objects apart
            self.put(f"a/{i}.edf", size, i)
        for i in range(20):
            self.put(f"a/sub/{i}.tsv", 1000 + i, 100 + i)
        self.s3.pace_s = 0.006  # one body at a time, so long after the one before
        kills = rounds = gone_on = 0
        while kills < KILLS or not rounds:
            with self.s3.lock:
                self.s3.requests.clear()
            held, whole = self.held_parts(), {os.path.getsize(p) for p in self.entries()}
            out = self.live(self.random.uniform(0.05, 0.5) * longer(kills), 1 << 30, "a")
            asked = self.asked()
            self.assertEqual([p for p in asked if p in held], [], "a part that had arrived and holds is asked for again")
            self.assertEqual([p for p in asked if p[0] in whole], [], "a file that had arrived is asked for again")
            gone_on += len(held)
            self.assert_whole()
            if out is None:
                kills += 1
                continue
            self.assertEqual(out, "a 23\n")
            rounds += 1
            self.assertEqual(os.listdir(f"{self.folder.name}/objects/partial"), [], "nothing is left of what has arrived")
            for i, path in enumerate(self.entries()):  # all over again
                os.unlink(path)
        self.assertGreater(gone_on, 0, "no kill left a part to go on from")
        print(f"{kills} kills in mid-download, {rounds} times arrived, {gone_on} parts were there already")

    def test_a_file_that_was_whole_but_not_in_place_is_not_fetched_again(self):
        self.put("a/1.edf", 9 * MIB, 1)
        self.assertEqual(self.live(30, 1 << 30, "a"), "a 1\n")
        entry, = self.entries()
        slot = f"{self.folder.name}/objects/partial/{os.path.basename(entry)}"
        os.makedirs(slot)
        os.rename(entry, f"{slot}/data")  # as between the end of the transfer and the commit
        self.s3.requests.clear()
        self.assertEqual(self.live(30, 1 << 30, "a"), "a 1\n")
        self.assertEqual(self.asked(), [])
        self.assertEqual(len(self.entries()), 1)

    def test_an_entry_cut_short_behind_the_caches_back_is_fetched_again(self):
        self.put("a/1.edf", 70000, 1)
        self.live(30, 1 << 30, "a")
        os.truncate(self.entries()[0], 30000)
        self.assertEqual(self.live(30, 1 << 30, "a"), "a 1\n")
        self.assert_whole()

    def test_an_object_that_changes_after_the_list_is_refused_though_its_size_is_the_same(self):
        self.put("a/1.edf", 70000, 1)
        self.s3.stale["a/1.edf"] = '"0123456789abcdef0123456789abcdef"'  # what the list says
        child = self.start(1 << 30, "a")
        _, err = child.communicate(timeout=3600)
        self.assertEqual(child.returncode, 1)
        self.assertIn("changed since it was listed", err)
        self.assertEqual((self.entries(), os.listdir(f"{self.folder.name}/objects/partial")), ([], []))


class Evictions(Crash):
    LIMIT = 3 * MIB

    def used(self):
        """Bytes on the volume; a file in the making has holes."""
        files = [os.stat(os.path.join(root, f)) for root, _, names in os.walk(f"{self.folder.name}/objects") for f in names if f != ".lock"]
        return sum(min(f.st_size, 512 * f.st_blocks) for f in files)

    def unfinished(self):
        """Files that are no entries, with their sizes and bytes on the volume."""
        paths = [os.path.join(root, f) for root, _, names in os.walk(f"{self.folder.name}/objects") for f in names]
        return [(os.path.relpath(p, self.folder.name), os.stat(p).st_size, 512 * os.stat(p).st_blocks) for p in paths if "/entries/" not in p]

    def test_a_killed_eviction_serves_nothing_torn_and_keeps_the_limit(self):
        for prefix in "abc":  # two of the three fit
            for i in range(60):
                self.put(f"{prefix}/{i}.edf", 16000 + 137 * i, f"{prefix}{i}")
        kills = whole = evictions = 0
        while kills < KILLS or evictions < 50 or whole < 5:
            before = set(self.entries())
            order = [self.random.choice("abc") for _ in range(40)]
            child = self.start(self.LIMIT, *order)
            time.sleep(self.random.uniform(0.02, 0.25) * longer(kills))
            child.kill()
            out, err = child.communicate()
            self.assertEqual(child.returncode, -9, err)
            kills += 1
            whole += out.count("\n")
            evictions += len(before - set(self.entries()))
            self.assert_whole()
            self.assertLessEqual(self.used(), self.LIMIT, f"cache.max_size holds at every moment; in the making: {self.unfinished()}")
        self.assertEqual(self.live(60, self.LIMIT, "a", "b", "c"), "a 60\nb 60\nc 60\n")
        print(f"{kills} kills in mid-eviction, {evictions} entries went, {whole} mirrors were whole and untorn")


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=1).result.wasSuccessful() else 1)
