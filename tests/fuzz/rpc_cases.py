"""Requests for every method of every service: valid ones, made of what the daemon is known to have, and the same with changed fields, changed
bytes, other orders and other ends. Everything is drawn from the random generator that is passed in."""
import collections
import glob
import importlib
import os
import string

from rpc_wire import packed

INTEGERS = (0, 1, -1, 2, 7, 63, 64, 255, 256, 1000, 65535, 65536, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 53, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 0.25, 256.0, 1e-9, 1e9, 1e38, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", " ", ".", "..", "../x", "/", "/dev/null", "/proc/self/fd", "a" * 63, "a" * 64, "a" * 4096, "store://", "store://bucket", "store://bucket/x",
         "store://other/x", "job:", "job:x", "job:x@best", "job:x@-1", "upload:x", "file://", "%s%n", "a\nb", "é" * 70, "\u2028", "a=b", "a.b=", "=", "\t", "0",
         "-1", "1e999", "null", "~", "{}", "[]", "&a *a")
LARGEST_TICKS = 20000  # of a step that is not meant to last
LONGEST_JOB = ("training.max_steps=1", "limits.wall_clock=10s", "limits.restarts=0", "data.loader_workers=1")
KEPT_WORDS = 40
EXCLUDED = {"/brr.v1.Admin/Drain"}  # it ends the daemon, as it should

Method = collections.namedtuple("Method", "path input output sends_many")


def load_methods(root):
    """Every method below the folder of proto files, whose modules must have been compiled."""
    from google.protobuf import message_factory, symbol_database
    make = getattr(message_factory, "GetMessageClass", None) or symbol_database.Default().GetPrototype
    methods = []
    for path in sorted(glob.glob(f"{root}/**/*.proto", recursive=True)):
        module = importlib.import_module(os.path.relpath(path, root)[:-len(".proto")].replace("/", ".") + "_pb2")
        for service in module.DESCRIPTOR.services_by_name.values():
            for m in service.methods:
                proto = {p.name: p for p in _service_proto(module, service.name).method}[m.name]
                methods.append(Method(f"/{service.full_name}/{m.name}", make(m.input_type), make(m.output_type), proto.client_streaming))
    return [m for m in methods if m.path not in EXCLUDED]


def _service_proto(module, name):
    from google.protobuf import descriptor_pb2
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    return next(s for s in file.service if s.name == name)


class Words:
    """Texts that mean something to the daemon, by the name of the field: given ones, and those of its answers."""

    def __init__(self, known):
        self.by_field = {field: collections.deque(words, KEPT_WORDS) for field, words in known.items()}
        self.fixed = {field: list(words) for field, words in known.items()}

    def learn(self, message):
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                for part in value if field.label == field.LABEL_REPEATED else [value]:
                    self.learn(part)
            elif field.type == field.TYPE_STRING and field.label != field.LABEL_REPEATED and value and len(value) < 200:
                self.by_field.setdefault(field.name, collections.deque(maxlen=KEPT_WORDS)).append(value)

    def draw(self, rng, field):
        """A word of this field, or sometimes of another."""
        x = rng.random()
        if x < 0.25:
            return rng.choice(TEXTS)
        if x < 0.35:
            field = rng.choice(sorted(self.by_field))
        known = self.fixed.get(field) if rng.random() < 0.5 else self.by_field.get(field)
        return rng.choice(list(known)) if known else "".join(rng.choice(string.printable) for _ in range(rng.randrange(12)))


class Cases:
    """kit: model (reference), labels, rate, network (bytes), model_bytes, source (folder), job_files (texts)."""

    def __init__(self, methods, words, kit):
        self.methods, self.words, self.kit = methods, words, kit
        self.by_path = {m.path: m for m in methods}

    # ---- valid requests ----

    def requests(self, rng, method):
        """A list of messages that the daemon should accept, more or less."""
        make = getattr(self, "like_" + method.path.rpartition(".")[2].replace("/", "_"), None)
        if make:
            return make(rng, method.input)
        message = method.input()
        self.set_fields(rng, message, 0.8, 0)
        return [message]

    def like_Stream_Run(self, rng, message):
        kit = self.kit
        opened = dict(
            model=rng.choice((kit["model"], kit["model"], "ward", self.words.draw(rng, "model"))), channels=kit["labels"], rate_hz=kit["rate"],
            format=rng.choice((1, 1, 1, 2)), scale_uv=0.1, alarm_hop_s=rng.choice((-1, 0, 0.25, 2)), want_probabilities=rng.random() < 0.5,
            realtime=rng.random() < 0.5, resumable=rng.random() < 0.6, client_name=self.words.draw(rng, "client_name"))
        if rng.random() < 0.4:
            opened.update(resumable=True, resume_token=self.words.draw(rng, "resume_token"), next_result_seq=rng.choice((0, 0, 1, 5, 1000)))
        parts, at = [message(open=opened)], 0
        width = 4 if opened["format"] == 1 else 2
        for _ in range(rng.randrange(12)):
            x, m = rng.random(), message()
            if x < 0.75:
                n = rng.choice((1, 10, 64, 256, 1024, 3000))
                m.chunk.first_sample, m.chunk.samples = at, n
                m.chunk.data = rng.randbytes(64) * (n * len(kit["labels"]) * width // 64 + 1)
                m.chunk.data = m.chunk.data[:n * len(kit["labels"]) * width]
                at += n
            elif x < 0.87:
                m.gap.first, m.gap.end, m.gap.cause = at, at + rng.choice((1, 100, 5000, 10 ** 6)), "fuzz"
                at = m.gap.end
            else:
                m.seen.next_result_seq = rng.randrange(20)
            parts.append(m)
        return parts

    def like_Jobs_Submit(self, rng, message):
        [m] = self.like_Jobs_Validate(rng, message)
        m.request_id = rng.choice(("", "", self.words.draw(rng, "request_id")))
        return [m]

    def like_Jobs_Validate(self, rng, message):
        m = message()
        self.job_file(rng, m.file)
        return [m]

    def job_file(self, rng, file):
        lines = rng.choice(self.kit["job_files"]).splitlines()
        for _ in range(rng.choice((0, 0, 1, 3))):
            at = rng.randrange(len(lines))
            lines[at:at + 1] = rng.choice(([], [lines[at]] * 2, [lines[at].replace(":", "", 1)], [lines[at] + rng.choice(TEXTS)], [rng.choice(lines)]))
        file.yaml, file.name = "\n".join(lines) + "\n", "fuzz.yaml"
        file.overrides.extend([f"data.source=file://{self.kit['source']}", *LONGEST_JOB])
        if rng.random() < 0.3:
            file.overrides.append(f"{rng.choice(('data', 'model', 'training', 'limits', 'checkpoint'))}.{rng.choice(TEXTS[:40])}={rng.choice(TEXTS)}")

    def parts(self, rng, data, make, first):
        size = rng.choice((100, 4096, 1 << 18))
        parts = [make(**first, data=data[:size])] if rng.random() < 0.5 else [make(**first)]
        return parts + [make(data=data[at:at + size]) for at in range(len(parts[0].data), len(data), size)][:40]

    def like_Checkpoints_Put(self, rng, message):
        data = self.kit["model_bytes"]
        if rng.random() < 0.5:
            data = change_bytes(rng, data)
        import hashlib
        return self.parts(rng, data, message, {"name": f"up{rng.randrange(4)}", "sha256": hashlib.sha256(data).hexdigest()})

    def network_parts(self, rng, message, **first):
        data = self.kit["network"]
        if rng.random() < 0.3:
            data = change_bytes(rng, data)
        def make(data=b"", **more):
            return message(part=data, **more)
        size = rng.choice((1000, 1 << 18))
        return [make(**first, bytes=len(data)), *[make(data=data[at:at + size]) for at in range(0, len(data), size)][:40]]

    def like_Burst_Create(self, rng, message):
        return self.network_parts(rng, message, name=f"net{rng.randrange(4)}", every_tick=rng.random() < 0.5)

    def like_Burst_Restore(self, rng, message):
        return self.network_parts(rng, message, name=f"net{rng.randrange(4)}")

    def like_Burst_Step(self, rng, message):
        return [message(name=f"net{rng.randrange(4)}", ticks=rng.choice((0, 1, 10, 1000, LARGEST_TICKS)), want_fired=rng.random() < 0.7)]

    def like_Burst_Inject(self, rng, message):
        n = rng.choice((0, 1, 5, 200))
        return [message(name=f"net{rng.randrange(4)}", tick=[rng.choice((0, 1, 2, 50, 10 ** 6)) for _ in range(rng.choice((0, n)))],
                        id=[rng.randrange(70) for _ in range(n)], potential=[rng.choice(FLOATS[:6]) for _ in range(n)])]

    def like_ServerReflection_ServerReflectionInfo(self, rng, message):
        parts = []
        for _ in range(rng.randrange(1, 6)):
            m = message()
            self.set_fields(rng, m, 0.7, 0)
            parts.append(m)
        return parts

    # ---- fields ----

    def value(self, rng, field):
        if field.type == field.TYPE_STRING:
            return self.words.draw(rng, field.name)
        if field.type == field.TYPE_BYTES:
            return rng.randbytes(rng.choice((0, 1, 4, 77, 4000)))
        if field.type == field.TYPE_BOOL:
            return rng.random() < 0.5
        if field.type == field.TYPE_ENUM:
            return rng.choice((0, 1, 2, 3, 5, 8, 9, 100, -1))
        if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
            return rng.choice(FLOATS)
        low, high = {field.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1), field.CPPTYPE_UINT32: (0, (1 << 32) - 1), field.CPPTYPE_UINT64: (0, (1 << 64) - 1)}.get(
            field.cpp_type, (-(1 << 63), (1 << 63) - 1))
        return min(max(rng.choice(INTEGERS), low), high)

    def set_fields(self, rng, message, share, depth):
        """Sets about this share of the fields."""
        for field in message.DESCRIPTOR.fields:
            if rng.random() >= share or depth > 3:
                continue
            repeated = field.label == field.LABEL_REPEATED
            for _ in range(rng.choice((0, 1, 2, 5)) if repeated else 1):
                if field.type == field.TYPE_MESSAGE:
                    part = getattr(message, field.name)
                    self.set_fields(rng, part.add() if repeated else part, share, depth + 1)
                elif repeated:
                    getattr(message, field.name).append(self.value(rng, field))
                else:
                    setattr(message, field.name, self.value(rng, field))

    # ---- a call ----

    def draw(self, rng):
        """(method, extra headers, messages with their gRPC prefix)."""
        method = rng.choice(self.methods) if rng.random() < 0.7 else self.by_path["/brr.v1.Stream/Run"]
        messages = self.requests(rng, method)
        if rng.random() < 0.25:
            self.set_fields(rng, rng.choice(messages), rng.choice((0.05, 0.3)), 0)
        order = rng.random()
        if order < 0.05:
            rng.shuffle(messages)
        elif order < 0.12:
            messages = messages * 2
        elif order < 0.17:
            messages = messages[1:]
        wire = [m.SerializeToString() for m in messages]
        if rng.random() < 0.2 and wire:
            at = rng.randrange(len(wire))
            wire[at] = change_bytes(rng, wire[at])
        return method, self.headers(rng), [self.prefixed(rng, data) for data in wire]

    @staticmethod
    def prefixed(rng, data):
        if rng.random() > 0.02:
            return packed(data)
        lie = bytearray(packed(data))  # compressed although it is not, or of another length
        lie[rng.randrange(5)] = rng.randrange(256)
        return bytes(lie)

    @staticmethod
    def headers(rng):
        if rng.random() > 0.1:
            return []
        return [rng.choice(((b"grpc-timeout", b"1m"), (b"grpc-timeout", b"99999999H"), (b"grpc-timeout", b"x"), (b"authorization", b"Bearer " + b"x" * 43),
                            (b"authorization", b"Basic \xff"), (b"x-long", b"y" * rng.choice((100, 7000, 20000))), (b"brr-error-bin", b"AAAA"),
                            (b"grpc-encoding", b"gzip"), (b"grpc-accept-encoding", b"identity,deflate,gzip"), (b"te", b"x")))]


def change_bytes(rng, data):
    """The bytes with one to four changes: a bit, a byte, a piece left out, a piece twice, an end."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            del data[at:at + rng.choice((1, 2, 8, 100))]
        elif kind == 3:
            data[at:at] = data[at:at + rng.choice((1, 4, 50))]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 5)))
        else:
            del data[at:]
    return bytes(data)
