#!/usr/bin/env python3
"""brrctl store against an S3 server that misbehaves on purpose: what is fetched is whole and true, or there is one clear error."""
import base64
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

from fake_s3 import FakeMetadata, FakeS3, Fault, SECRET

BRRCTL = os.path.join(os.environ["BRR_BIN"], "brrctl")
MIB = 1 << 20


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


class Store(unittest.TestCase):
    def setUp(self):
        self.s3 = self.open()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def open(self):
        s3 = FakeS3().__enter__()
        self.addCleanup(s3.__exit__)
        return s3

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_store(self, *words, env=None, timeout=3600):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and "proxy" not in k.lower()}
        clean.update(HOME=self.folder.name, AWS_EC2_METADATA_DISABLED="true")
        return subprocess.run([BRRCTL, "store", *words], env={**clean, **self.s3.environment(), **(env or {})}, capture_output=True,
                              text=True, timeout=timeout)

    def good(self, *words, **more):
        done = self.run_store(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, want, *words, **more):
        done = self.run_store(*words, **more)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(want, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, "one clear line: " + done.stderr)

    def files(self):
        """What lies in the folder, without the list of what brrctl has written there."""
        return sorted(set(os.listdir(self.folder.name)) - {".brrd-output.json"})

    def get(self, key="big", stall="20", **more):
        self.good("get", f"s3://eeg/{key}", "--out", self.path("got"), "--stall", stall, **more)
        with open(self.path("got"), "rb") as f:
            self.assertEqual(f.read(), self.s3.objects[key])
        self.assertEqual(self.files(), ["got"], "nothing is left beside it")

    def refused(self, want, key="big", **more):
        self.bad(want, "get", f"s3://eeg/{key}", "--out", self.path("got"), **more)
        self.assertFalse(os.path.exists(self.path("got")), "nothing half-written under the name")


class Reading(Store):
    def test_a_big_object_arrives_in_ranges_that_name_its_version(self):
        self.s3.objects["big"] = noise(20 * MIB + 12345)
        self.get()
        self.assertEqual(sorted(r[3] for r in self.s3.requests if r[0] == "GET"),
                         sorted(f"bytes={k * 8 * MIB}-{min((k + 1) * 8 * MIB, 20 * MIB + 12345) - 1}" for k in range(3)))

    def test_empty_and_tiny_objects_arrive(self):
        for data in (b"", b"x"):
            self.s3.objects["big"] = data
            self.get()

    def test_faults_that_pass_are_outlasted(self):
        for kind in ("503", "500", "short", "lie", "reset", "stall", "loris"):
            with self.subTest(kind):
                self.s3.objects["big"] = noise(9 * MIB)
                self.s3.faults = [Fault("GET", "big", kind, 2), Fault("HEAD", "big", "503", 1)]
                self.get(stall="1" if kind in ("stall", "loris") else "20")
                self.assertTrue(all(f.times == 0 for f in self.s3.faults))

    def test_an_outage_ends_after_eight_tries_and_says_so(self):
        self.s3.objects["big"] = b"x"
        self.s3.faults = [Fault("GET", "big", "500", 100)]
        self.refused("out of order, in each of 8 tries")
        self.assertEqual(100 - self.s3.faults[0].times, 8)

    def test_an_object_that_changes_meanwhile_is_never_spliced(self):
        for kind in ("etag", "412"):
            with self.subTest(kind):
                key = "big." + kind  # a name of its own: the server may still be reading what the one before asked for
                self.s3.objects[key] = noise(9 * MIB)
                self.s3.faults = [Fault("GET", key, kind)]
                self.refused("changed while it was read", key)
                self.assertEqual(os.listdir(self.folder.name), [])

    def test_bytes_that_differ_from_the_checksum_are_fetched_once_more_and_refused(self):
        self.s3.objects["big"] = noise(9 * MIB)
        self.s3.faults = [Fault("GET", "big", "corrupt", 100)]
        self.refused("the server promises")
        self.assertEqual(100 - self.s3.faults[0].times, 4, "two ranges, two tries")
        self.assertEqual(os.listdir(self.folder.name), [])
        self.s3.faults[0].times = 1
        self.get()

    def test_a_range_that_was_not_asked_for_is_refused(self):
        self.s3.objects["big"] = noise(9 * MIB)
        self.s3.faults = [Fault("GET", "big", "wrongrange")]
        self.refused("the server sent 'bytes")

    def test_a_redirect_is_named_and_not_followed(self):
        self.s3.objects["big"] = b"x"
        self.s3.faults = [Fault("GET", "big", "redirect")]
        self.refused("elsewhere.invalid")

    def test_an_interrupted_get_goes_on_where_it_was(self):
        data = self.s3.objects["big"] = noise(33 * MIB)
        self.s3.etags["big"] = '"0123456789abcdef0123456789abcdef-5"'
        self.s3.sums["big"] = [("x-amz-checksum-crc32", base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode())]
        self.s3.faults = [Fault("GET", "big", "stall", 2)]
        child = subprocess.Popen([BRRCTL, "store", "get", "s3://eeg/big", "--out", self.path("got")],
                                 env={**os.environ, **self.s3.environment()}, stderr=subprocess.DEVNULL)
        journal = self.path("got.part.journal")
        while True:
            if os.path.exists(journal):
                with open(journal) as f:
                    if f.read().count("\n") >= 4:  # the title and three parts
                        break
            time.sleep(0.05)
        child.kill()
        child.wait()
        self.assertFalse(os.path.exists(self.path("got")))
        with open(journal) as f:
            parts = [int(line.split()[0]) for line in f.read().splitlines()[1:]]
        with open(self.path("got.part"), "r+b") as f:  # one of the parts is damaged on top
            f.seek(parts[0] * 8 * MIB)
            f.write(b"\0" * 100)
        self.s3.requests.clear()
        self.get()
        ranges = [r[3] for r in self.s3.requests if r[0] == "GET"]
        self.assertEqual(len(ranges), 5 - len(parts) + 1, "what had arrived and holds is not asked for again")


def reflected_crc(data, polynomial, bits):
    table, ones = [], (1 << bits) - 1
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (polynomial if i & 1 else 0)
        table.append(i)
    crc = ones
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    return base64.b64encode((crc ^ ones).to_bytes(bits // 8, "big")).decode()


class Sums(Store):
    """Of objects that came in parts: their ETag tells nothing."""

    def setUp(self):
        super().setUp()
        self.data = self.s3.objects["big"] = noise(8 * MIB + 12345)
        self.s3.etags["big"] = '"0123456789abcdef0123456789abcdef-2"'

    def check(self, name):
        self.get()
        os.remove(self.path("got"))
        self.s3.faults = [Fault("GET", "big", "corrupt")]
        self.get()
        os.remove(self.path("got"))
        self.s3.faults = [Fault("GET", "big", "corrupt", 100)]
        self.refused(f"the received object has {name} ")
        self.assertEqual(100 - self.s3.faults[0].times, 4, "two ranges, two tries")
        self.assertEqual(self.files(), [])
        self.s3.faults = []

    def test_every_kind_that_servers_keep_is_compared(self):
        for name, header, value in (("CRC-64/NVME", "crc64nvme", reflected_crc(self.data, 0x9a6c9329ac4bc9b5, 64)),
                                    ("CRC-32C", "crc32c", reflected_crc(self.data, 0x82f63b78, 32)),
                                    ("CRC-32", "crc32", base64.b64encode(zlib.crc32(self.data).to_bytes(4, "big")).decode()),
                                    ("SHA-256", "sha256", base64.b64encode(hashlib.sha256(self.data).digest()).decode())):
            with self.subTest(name):
                self.s3.sums["big"] = [("x-amz-checksum-" + header, value), ("x-amz-checksum-type", "FULL_OBJECT")]
                self.check(name)

    def test_sums_of_sums_are_not_taken_for_that_of_the_whole(self):
        self.s3.sums["big"] = [("x-amz-checksum-crc32c", "AAAAAA=="), ("x-amz-checksum-type", "COMPOSITE")]
        self.get()
        self.s3.sums["big"] = [("x-amz-checksum-sha256", base64.b64encode(bytes(32)).decode() + "-2")]
        os.remove(self.path("got"))
        self.get()

    def test_what_uploaders_note_is_compared(self):
        self.s3.notes["big"] = {"x-amz-meta-md5chksum": base64.b64encode(hashlib.md5(self.data).digest()).decode()}  # as rclone does
        self.check("MD5")
        self.s3.objects.clear()
        with open(self.path("file"), "wb") as f:
            f.write(noise(17 * MIB))
        self.good("put", self.path("file"), "s3://eeg/big")
        os.remove(self.path("file"))
        self.assertEqual(self.s3.notes["big"], {"x-amz-meta-brrd-sha256": hashlib.sha256(noise(17 * MIB)).hexdigest()})
        self.get()
        os.remove(self.path("got"))
        self.s3.faults = [Fault("GET", "big", "corrupt", 100)]
        self.refused("the received object has SHA-256 ")


class Listing(Store):
    def test_thousands_of_keys_come_in_order_over_many_pages(self):
        keys = {f"p/{i:05d}": b"" for i in range(10001)}
        self.s3.objects.update(keys)
        for page in (1000, 900):
            self.s3.page_keys = page
            lines = [json.loads(line) for line in self.good("ls", "s3://eeg/p/", "--json").splitlines()]
            self.assertEqual([line["key"] for line in lines], sorted(keys))

    def test_odd_characters_survive_listing_and_fetching(self):
        odd = ["a b", "a+b", "a=b", "a@b", "a(b)*'!", "a,b:c;d$e&f", "a~b", "é/ü", "a%2Fb", "100%", "<&\">", "sub-01/x_eeg.edf"]
        self.s3.objects.update({k: k.encode() for k in odd})
        lines = [json.loads(line)["key"] for line in self.good("ls", "s3://eeg", "--json").splitlines()]
        self.assertEqual(lines, sorted(odd, key=str.encode))
        self.good("get", "s3://eeg/", "--out", self.path("all"))
        for key in odd:
            with open(os.path.join(self.path("all"), key), "rb") as f:
                self.assertEqual(f.read(), key.encode())

    def test_keys_that_no_folder_can_hold_are_left_out(self):
        self.s3.objects.update({"a/": b"", "a//b": b"x", "a/../b": b"x", "a/ok": b"x"})
        lines = [json.loads(line)["key"] for line in self.good("ls", "s3://eeg", "--json").splitlines()]
        self.assertEqual(lines, ["a/ok"])


class Writing(Store):
    def put(self, size, *words):
        data = noise(size)
        with open(self.path("file"), "wb") as f:
            f.write(data)
        self.good("put", self.path("file"), "s3://eeg/new", *words)
        self.assertEqual(self.s3.objects["new"], data)

    def test_small_and_empty_files_go_in_one_request(self):
        for size in (0, 1, 3 * MIB):
            self.put(size)
        self.assertEqual([r[0] for r in self.s3.requests].count("POST"), 0)

    def test_a_big_file_goes_in_parts_through_faults(self):
        self.s3.faults = [Fault("PUT", "new", "503", 2), Fault("PUT", "new", "reset", 1), Fault("POST", "new", "500", 1)]
        self.put(30 * MIB + 7)
        self.assertEqual(self.s3.uploads, {})
        self.assertTrue(self.s3.etags["new"].endswith('-4"'))

    def test_a_failed_upload_leaves_neither_object_nor_parts(self):
        with open(self.path("file"), "wb") as f:
            f.write(noise(20 * MIB))
        self.s3.faults = [Fault("POST", "new", "200error", 100)]
        self.bad("did not put the parts together", "put", self.path("file"), "s3://eeg/new")
        self.assertEqual((self.s3.objects, self.s3.uploads), ({}, {}))


class Identity(Store):
    def setUp(self):
        super().setUp()
        self.s3.objects["big"] = b"eeg"

    def test_wrong_keys_are_told_apart(self):
        self.refused("does not know the access key", env={"AWS_ACCESS_KEY_ID": "nobody"})
        self.refused("the secret key is wrong", env={"AWS_SECRET_ACCESS_KEY": "wrong"})
        self.refused("no credentials", env={"AWS_ACCESS_KEY_ID": ""})

    def test_missing_objects_and_buckets_are_told_apart(self):
        self.refused("there is no such object", key="missing")
        self.bad("there is no such bucket", "ls", "s3://other")

    def test_a_clock_that_is_off_is_corrected_by_the_servers(self):
        self.s3.clock_off_s = 3 * 3600
        self.get()

    def test_another_region_is_found(self):
        self.s3.region = "eu-west-3"
        self.get()

    def test_session_tokens_are_sent_and_expired_ones_named(self):
        self.s3.token = "session+token/="
        self.get(env={"AWS_SESSION_TOKEN": "session+token/="})
        os.remove(self.path("got"))
        self.refused("have expired", env={"AWS_SESSION_TOKEN": "old"})

    def test_a_file_with_newer_keys_is_read_again_when_the_old_have_expired(self):
        text = f"[default]\naws_access_key_id = {self.s3.key_id}\naws_secret_access_key = {self.s3.secret}\naws_session_token = "
        self.s3.token = "new"
        os.mkfifo(self.path("keys"))  # gives the old keys to the first reader, the new ones to the next

        def give():
            for token in ("old", "new"):
                with open(self.path("keys"), "w") as f:
                    f.write(text + token + "\n")
                while not self.s3.requests:  # the first reader has closed the file
                    time.sleep(0.01)

        self.s3.requests.clear()
        threading.Thread(target=give, daemon=True).start()
        self.good("get", "s3://eeg/big", "--out", self.path("got"), "--credentials", f"file:{self.path('keys')}",
                  env={"AWS_ACCESS_KEY_ID": ""}, timeout=3600)

    def test_a_profile_of_a_credentials_file_serves(self):
        with open(self.path("keys"), "w") as f:
            f.write(f"[default]\naws_access_key_id = x\naws_secret_access_key = y\n\n[eeg]\naws_access_key_id={self.s3.key_id}\n"
                    f"aws_secret_access_key = {self.s3.secret}\n")
        self.good("check", "s3://eeg", "--credentials", f"file:{self.path('keys')}#eeg", env={"AWS_ACCESS_KEY_ID": ""})
        self.bad("does not know", "check", "s3://eeg", "--credentials", f"file:{self.path('keys')}", env={"AWS_ACCESS_KEY_ID": ""})

    def test_public_buckets_need_no_key(self):
        self.bad("access is denied", "check", "s3://eeg", "--anonymous")
        self.s3.public = True
        self.good("check", "s3://eeg", "--anonymous", env={"AWS_ACCESS_KEY_ID": ""})

    def test_virtual_host_style_serves(self):
        self.good("check", "s3://eeg", "--endpoint", f"http://s3.localhost:{self.s3.port}")

    def test_stores_of_a_daemon_file_serve(self):
        with open(self.path("daemon.yaml"), "w") as f:
            f.write(f"stores:\n  mine: {{url: 's3://eeg', endpoint: '{self.s3.endpoint}', credentials: env}}\n")
        self.good("check", "store://mine/", "--config", self.path("daemon.yaml"))
        self.bad("has no store 'other'", "check", "store://other/", "--config", self.path("daemon.yaml"))


class Metadata(Store):
    """Credentials of a virtual machine's role."""

    def machine(self, *keys):
        m = FakeMetadata(*keys).__enter__()
        self.addCleanup(m.__exit__)
        self.s3.objects["big"] = b"eeg"
        self.s3.token = "session+token/="
        self.env = {"AWS_ACCESS_KEY_ID": "", "AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": m.endpoint}
        return m

    def key(self, lasts_s=3600, token="session+token/="):
        return self.s3.key_id, SECRET, token, lasts_s

    def test_they_are_asked_for_when_nothing_else_is_there(self):
        m = self.machine(self.key())
        self.get(env=self.env)
        self.assertEqual([r[0] for r in m.requests], ["PUT", "GET", "GET"], "asked once, token first")
        m.requests.clear()
        os.remove(self.path("got"))
        self.get(env={**self.env, "AWS_ACCESS_KEY_ID": self.s3.key_id, "AWS_SESSION_TOKEN": self.s3.token})
        self.assertEqual(m.requests, [], "the environment comes first")

    def test_they_can_be_named(self):
        m = self.machine(self.key())
        m.broken = 2
        self.good("check", "s3://eeg", "--credentials", "imds", env=self.env)

    def test_expired_ones_are_renewed_before_they_are_used(self):
        m = self.machine(self.key(-5, "too old"), self.key())
        self.get(env=self.env)
        self.assertEqual(len(m.requests), 6)

    def test_ones_the_server_calls_expired_are_asked_for_anew_once(self):
        m = self.machine(self.key(3600, "revoked"), self.key())
        self.get(env=self.env)
        self.assertEqual(len(m.requests), 6)
        m.keys[:] = [self.key(3600, "revoked")]
        os.remove(self.path("got"))
        self.refused("have expired", env=self.env)

    def test_a_service_that_gives_none_is_named(self):
        m = self.machine(self.key())
        m.role = ""
        self.refused("give the virtual machine a role", env=self.env)
        self.refused("neither AWS_ACCESS_KEY_ID", env=self.env)
        self.refused("no metadata service answers", env={**self.env, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"})
        self.bad("forbids", "check", "s3://eeg", "--credentials", "imds", env={**self.env, "AWS_EC2_METADATA_DISABLED": "true"})

    def test_an_identity_that_is_asked_for_is_never_replaced_by_the_machines(self):
        m = self.machine(self.key())
        for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
            self.refused(name, env={**self.env, name: "/var/run/token"})
        home = self.path("home")
        os.makedirs(f"{home}/.aws")
        env = {k: v for k, v in self.env.items() if k not in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")}
        env["HOME"] = home
        self.refused("profile 'lab' of AWS_PROFILE", env={**env, "AWS_PROFILE": "lab"})
        with open(f"{home}/.aws/config", "w", encoding="ascii") as f:
            f.write("[profile lab]\nrole_arn = arn:x\nsource_profile = default\n[default]\nsso_session = house\n")
        self.refused("has role_arn", env={**env, "AWS_PROFILE": "lab"})
        self.refused("has sso_session", env=env)
        self.assertEqual(m.requests, [])

    def test_a_file_of_cas_that_is_not_there_is_named(self):
        self.bad("file of CAs /nowhere/ca.pem", "check", "s3://eeg", "--ca-file", "/nowhere/ca.pem")
        self.bad("file of CAs /nowhere/ca.pem", "check", "s3://eeg", env={**os.environ, "AWS_CA_BUNDLE": "/nowhere/ca.pem"})


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=1).result.wasSuccessful() else 1)
