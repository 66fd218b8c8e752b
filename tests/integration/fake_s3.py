"""An S3 server in memory that checks signatures by its own arithmetic and does what goes wrong on purpose.

    with FakeS3() as s3:
        s3.objects["key"] = b"bytes"
        s3.faults.append(Fault("GET", "key", "503"))     # used up by the next request that it fits
"""
import datetime
import email.utils
import hashlib
import hmac
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

KEY_ID, SECRET, REGION = "FAKEACCESSKEY0000001", "fakesecret/with+odd=bytes", "us-east-1"


HEAD_BYTES = 16384  # what brrd asks of a recording before it plans


class Fault:
    """kind: 503 500 403 short lie stall loris reset etag 412 redirect norange wrongrange corrupt 200error; times: how often; whole:
    heads of recordings are spared."""

    def __init__(self, method, key, kind, times=1, whole=False):
        self.method, self.key, self.kind, self.times, self.whole = method, key, kind, times, whole


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def sign(secret, date, region, text):
    key = ("AWS4" + secret).encode()
    for part in (date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    @property
    def s3(self):
        return self.server.owner

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response_only(status)
        self.send_header("Date", email.utils.formatdate(time.time() + self.s3.clock_off_s, usegmt=True))
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.drip and body:
            for byte in body:
                if self.s3.stopped.wait(0.2):
                    return
                self.wfile.write(bytes([byte]))
        elif self.command != "HEAD" and body:
            self.s3.take_turn(self.life, len(body))
            self.wfile.write(body)

    def error(self, status, code, headers=()):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>".encode(), headers)

    def refuse(self):
        """Why the signature is no good, or None."""
        s3, auth = self.s3, self.headers.get("Authorization")
        if auth is None:
            return None if s3.public else (403, "AccessDenied")
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request,"
                             r"SignedHeaders=([^,]+),Signature=([0-9a-f]{64})", auth)
        if not found:
            return 400, "AuthorizationHeaderMalformed"
        key_id, day, region, names, signature = found.groups()
        if key_id != s3.key_id:
            return 403, "InvalidAccessKeyId"
        if region != s3.region:
            return 400, "AuthorizationHeaderMalformed"
        date = self.headers["x-amz-date"]
        signed = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
        if abs(signed - time.time() - s3.clock_off_s) > 900:
            return 403, "RequestTimeTooSkewed"
        if s3.token is not None and self.headers.get("x-amz-security-token") != s3.token:
            return 403, "ExpiredToken"
        path, _, query = self.path.partition("?")
        pairs = sorted((quote(n), quote(v)) for n, v in
                       ((urllib.parse.unquote(a), urllib.parse.unquote(b)) for a, _, b in
                        (p.partition("=") for p in query.split("&") if p)))
        lines = "".join(f"{n}:{' '.join(self.headers[n].split())}\n" for n in names.split(";"))
        payload = self.headers["x-amz-content-sha256"]
        canonical = "\n".join([self.command, quote(urllib.parse.unquote(path), "/"), "&".join(f"{n}={v}" for n, v in pairs), lines,
                               names, payload])
        text = f"AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        if "host" not in names.split(";") or sign(s3.secret, date, region, text) != signature:
            return 403, "SignatureDoesNotMatch"
        if payload != "UNSIGNED-PAYLOAD" and payload != hashlib.sha256(self.body).hexdigest():
            return 400, "XAmzContentSHA256Mismatch"
        return None

    def parse(self):
        path, _, query = self.path.partition("?")
        self.query = {urllib.parse.unquote(a): urllib.parse.unquote(b) for a, _, b in (p.partition("=") for p in query.split("&") if p)}
        path = urllib.parse.unquote(path)[1:]
        host = self.headers["Host"].split(":")[0]
        if host.startswith(self.s3.bucket + "."):
            return self.s3.bucket, path
        bucket, _, key = path.partition("/")
        return bucket, key

    def serve(self):
        s3 = self.s3
        self.life, self.drip = s3.life, False
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        bucket, key = self.parse()
        with s3.lock:
            s3.requests.append((self.command, key, dict(self.query), self.headers.get("Range")))
            fault = next((f for f in s3.faults if f.times and f.method == self.command and f.key == key
                          and not (f.whole and self.asks_head())), None)
            if fault:
                fault.times -= 1
            kind = fault.kind if fault else None
            self.drip = kind == "loris"
        refused = self.refuse()
        if refused:
            return self.error(*refused, [("x-amz-bucket-region", s3.region)] if refused[0] == 400 else [])
        if kind in ("503", "500"):
            return self.error(int(kind), "SlowDown" if kind == "503" else "InternalError")
        if kind == "403":
            return self.error(403, "AccessDenied")
        if kind == "412":
            return self.error(412, "PreconditionFailed")
        if kind == "redirect":
            return self.error(307, "TemporaryRedirect", [("Location", "http://elsewhere.invalid/")])
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close()
        if kind == "stall":
            self.close_connection = True
            return s3.stopped.wait(30)
        if bucket != s3.bucket:
            return self.error(404, "NoSuchBucket")
        behind_door = self.command == "GET" and key.endswith(".edf") and not self.asks_head()
        if behind_door and not s3.enter(key):
            return None
        with s3.lock:
            reply = getattr(self, "on_" + self.command.lower())(key, kind)
        self.answer(*reply[:2], *reply[2:])
        if behind_door:
            s3.sent.append(key)
        if kind in ("short",):
            self.close_connection = True

    def asks_head(self):
        return self.headers.get("Range") == f"bytes=0-{HEAD_BYTES - 1}"

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def fail(self, status, code):
        return status, f"<Error><Code>{code}</Code><Message>as asked</Message></Error>".encode()

    def on_head(self, key, kind):
        s3 = self.s3
        if key not in s3.objects:
            return 404, b""
        data = s3.objects[key]
        sums = s3.sums.get(key, []) if self.headers.get("x-amz-checksum-mode") == "ENABLED" else []
        return 200, b"", [("ETag", s3.etag(key)), ("Last-Modified", email.utils.formatdate(1e9, usegmt=True)),
                          *s3.notes.get(key, {}).items(), *sums], len(data)

    def on_get(self, key, kind):
        s3 = self.s3
        if not key:
            return self.listing()
        if key not in s3.objects:
            return self.fail(404, "NoSuchKey")
        data, etag = s3.objects[key], s3.etag(key)
        if self.headers.get("If-Match") not in (None, etag):
            return self.fail(412, "PreconditionFailed")
        if kind == "etag":
            etag = '"00000000000000000000000000000000"'
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not found or kind == "norange":
            return 200, data, [("ETag", etag)]
        first, last = int(found[1]), min(int(found[2]), len(data) - 1)
        if first >= len(data):
            return self.fail(416, "InvalidRange")
        part = data[first:last + 1]
        if kind == "corrupt":
            part = bytes([part[0] ^ 1]) + part[1:]
        if self.asks_head() and key in s3.damage:
            part = s3.damage[key](part)
        if kind == "wrongrange":
            first, last = first + 1, last + 1
        headers = [("ETag", etag), ("Content-Range", f"bytes {first}-{last}/{len(data)}")]
        if kind == "short":
            return 206, part[:len(part) // 2], headers, len(part)
        if kind == "lie":
            return 206, part[:len(part) // 2], headers
        return 206, part, headers

    def listing(self):
        s3, q = self.s3, self.query
        keys = sorted(k for k in s3.objects if k.startswith(q.get("prefix", "")))
        after = q.get("continuation-token", "").removeprefix("token+/= ") or q.get("start-after", "")
        keys = [k for k in keys if k > after]
        most = min(int(q.get("max-keys", 1000)), s3.page_keys)
        page, more = keys[:most], len(keys) > most
        rows = "".join(f"<Contents><Key>{escape(urllib.parse.quote_plus(k, safe='/'))}</Key><LastModified>2013-05-24T00:00:00.000Z"
                       f"</LastModified><ETag>{escape(s3.stale.get(k) or s3.etag(k), {chr(34): '&quot;'})}</ETag><Size>{len(s3.objects[k])}</Size>"
                       f"<StorageClass>STANDARD</StorageClass></Contents>" for k in page)
        token = f"<NextContinuationToken>{escape('token+/= ' + page[-1])}</NextContinuationToken>" if more else ""
        return 200, (f"<?xml version='1.0'?><ListBucketResult><Name>{s3.bucket}</Name><KeyCount>{len(page)}</KeyCount>"
                     f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>").encode()

    def on_put(self, key, kind):
        s3 = self.s3
        md5 = hashlib.md5(self.body).hexdigest()
        if "uploadId" in self.query:
            s3.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
        else:
            s3.objects[key] = self.body
        return 200, b"", [("ETag", f'"{md5}"')]

    def on_post(self, key, kind):
        s3 = self.s3
        if "uploads" in self.query:
            name = f"upload+{len(s3.uploads)}/="
            s3.uploads[name] = {}
            s3.begun[name] = {n.lower(): v for n, v in self.headers.items() if n.lower().startswith("x-amz-meta-")}
            return 200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode()
        parts = s3.uploads.get(self.query["uploadId"])
        if parts is None:
            return self.fail(404, "NoSuchUpload")
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>&quot;([0-9a-f]+)&quot;</ETag>", self.body.decode())
        if [int(n) for n, _ in named] != sorted(parts) or any(hashlib.md5(parts[int(n)]).hexdigest() != e for n, e in named):
            return self.fail(400, "InvalidPart")
        if kind == "200error":
            return self.fail(200, "InternalError")
        del s3.uploads[self.query["uploadId"]]
        sums = b"".join(hashlib.md5(parts[n]).digest() for n in sorted(parts))
        s3.objects[key] = b"".join(parts[n] for n in sorted(parts))
        s3.etags[key] = f'"{hashlib.md5(sums).hexdigest()}-{len(parts)}"'
        s3.notes[key] = s3.begun[self.query["uploadId"]]
        return 200, b"<CompleteMultipartUploadResult/>"

    def on_delete(self, key, kind):
        self.s3.uploads.pop(self.query.get("uploadId"), None)
        return 204, b""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients hang up on purpose


class MetadataHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def serve(self):
        m = self.server.owner
        m.requests.append((self.command, self.path))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = m.answer(self.command, self.path, self.headers)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_PUT = serve


class FakeMetadata:
    """The metadata service of a virtual machine, version 2 only. keys: what it gives out, one after the other, the last for ever:
    (key id, secret, session token, seconds until it expires)."""

    def __init__(self, *keys):
        self.keys, self.requests, self.role, self.broken = list(keys), [], "reader", 0
        self.server = Server(("127.0.0.1", 0), MetadataHandler)
        self.server.owner = self
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, method, path, headers):
        if self.broken:
            self.broken -= 1
            return 503, ""
        if (method, path) == ("PUT", "/latest/api/token"):
            return (200, "session-token==") if int(headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0 else (400, "")
        if method != "GET" or headers["X-aws-ec2-metadata-token"] != "session-token==":
            return 401, ""
        roles = "/latest/meta-data/iam/security-credentials/"
        if path == roles:
            return (200, self.role) if self.role else (404, "")
        if path != roles + self.role:
            return 404, ""
        key_id, secret, token, lasts_s = self.keys.pop(0) if len(self.keys) > 1 else self.keys[0]
        expires = datetime.datetime.fromtimestamp(time.time() + lasts_s, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, json.dumps({"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": key_id, "SecretAccessKey": secret, "Token": token,
                                "Expiration": expires})

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()


class FakeS3:
    def __init__(self, bucket="eeg"):
        self.bucket, self.key_id, self.secret, self.region, self.token = bucket, KEY_ID, SECRET, REGION, None
        self.objects, self.etags, self.md5s, self.uploads, self.faults, self.requests = {}, {}, {}, {}, [], []
        self.sums, self.notes, self.begun = {}, {}, {}  # headers of objects: (x-amz-checksum-…, value) pairs, x-amz-meta-…; those of uploads
        self.public, self.clock_off_s, self.page_keys = False, 0, 1000
        self.pace_s, self.turn = 0, threading.Lock()  # bodies go out one after the other, this far apart
        self.bytes_per_s = 0  # what all of them share
        self.life = 0  # of the client: what was asked in an earlier one need not wait for its turn
        self.stale = {}  # ETags that the list still gives
        self.damage = {}  # of heads: what becomes of their bytes
        self.doors = None  # so many recordings are given whole, first come first served, and the others wait; None: all
        self.inside, self.sent = [], []  # recordings let in; those of which a part went out that is no head
        self.door = threading.Condition()
        self.lock, self.stopped = threading.RLock(), threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.owner = self
        self.port = self.server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def etag(self, key):
        data = self.objects[key]
        if self.md5s.get(key, (None,))[0] is not data:
            self.md5s[key] = data, f'"{hashlib.md5(data).hexdigest()}"'
        return self.etags.get(key) or self.md5s[key][1]

    def enter(self, key):
        with self.door:
            while self.doors is not None and key not in self.inside and len(self.inside) >= self.doors:
                if self.stopped.is_set():
                    return False
                self.door.wait(0.05)
            if key not in self.inside:
                self.inside.append(key)
        return True

    def open_doors(self, number):
        with self.door:
            self.doors = number
            self.door.notify_all()

    def take_turn(self, life, size):
        if self.pace_s or self.bytes_per_s:
            with self.turn:
                if life == self.life:
                    time.sleep(self.pace_s + (size / self.bytes_per_s if self.bytes_per_s else 0))

    def environment(self):
        return {"AWS_ACCESS_KEY_ID": self.key_id, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_REGION": REGION, "no_proxy": "*"}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args):
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()
