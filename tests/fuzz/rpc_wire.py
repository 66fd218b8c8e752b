"""gRPC over HTTP/2 by hand: frames, HPACK without compression, message framing. A Wire sends what it is told to, right or wrong, and keeps the
messages that come back. Not thread-safe."""
import collections
import select
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = 8
WINDOW = 65535
MOST_KEPT = 64  # messages of an answer that are kept


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def hpack_int(value, bits, first):
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def hpack(headers):
    """Literal fields that are never indexed, without Huffman coding."""
    return b"".join(b"\x10" + hpack_int(len(k), 7, 0) + k + hpack_int(len(v), 7, 0) + v for k, v in headers)


def request_headers(path, extra=()):
    return [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"localhost"), (b"te", b"trailers"),
            (b"content-type", b"application/grpc"), *extra]


def packed(message):
    """A message with its gRPC prefix."""
    return struct.pack(">BI", 0, len(message)) + message


class Call:
    def __init__(self):
        self.window, self.data, self.messages, self.ended = None, bytearray(), collections.deque(maxlen=MOST_KEPT), False

    def take(self, data):
        self.data += data
        while len(self.data) >= 5 and len(self.data) >= 5 + (size := struct.unpack_from(">I", self.data, 1)[0]):
            self.messages.append(bytes(self.data[5:5 + size]))
            del self.data[:5 + size]


class Wire:
    """A connection. .broken: why it has ended, or None. With deaf=True no window is given back, so that answers pile up."""

    def __init__(self, path, deaf=False):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.deaf, self.broken, self.calls, self.next_id = deaf, None, {}, 1
        self.received, self.window, self.first_window = bytearray(), WINDOW, WINDOW
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data):
        if self.broken:
            return
        try:
            self.socket.sendall(data)
        except OSError as error:
            self.broken = f"send: {error}"

    def open(self, path, extra=(), end=False):
        stream, self.next_id = self.next_id, self.next_id + 2
        self.calls[stream] = Call()
        self.calls[stream].window = self.first_window
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, hpack(request_headers(path, extra))))
        return stream

    def write(self, stream, data, pieces=1, patience=2.0):
        """Sends the bytes in so many frames as far as the daemon's windows allow; what does not fit is left out."""
        size = max(1, -(-len(data) // pieces))
        deadline = time.monotonic() + patience
        at = 0
        while at < len(data) and not self.broken and not self.calls[stream].ended:
            room = min(self.window, self.calls[stream].window, size, 16384, len(data) - at)
            if room <= 0:
                if time.monotonic() > deadline:
                    return
                self.read(0.02)
                continue
            self.send(frame(DATA, 0, stream, data[at:at + room]))
            self.window -= room
            self.calls[stream].window -= room
            at += room

    def half_close(self, stream):
        self.send(frame(DATA, END_STREAM, stream))

    def reset(self, stream, code=CANCEL):
        self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))
        self.calls.pop(stream, None)

    def read(self, seconds):
        """Takes what has arrived, and waits so long for the first of it."""
        if self.broken or not select.select([self.socket], [], [], seconds)[0]:
            return
        try:
            data = self.socket.recv(1 << 18)
        except OSError as error:
            self.broken = f"recv: {error}"
            return
        if not data:
            self.broken = "closed"
            return
        self.received += data
        while len(self.received) >= 9 and len(self.received) >= 9 + (size := int.from_bytes(self.received[:3], "big")):
            kind, flags, stream = self.received[3], self.received[4], struct.unpack_from(">I", self.received, 5)[0] & 0x7fffffff
            body = bytes(self.received[9:9 + size])
            del self.received[:9 + size]
            self.take(kind, flags, stream, body)

    def take(self, kind, flags, stream, body):
        call = self.calls.get(stream)
        if kind == SETTINGS and not flags & ACK:
            for key, value in struct.iter_unpack(">HI", body):
                if key == 4:
                    for other in self.calls.values():
                        other.window += value - self.first_window
                    self.first_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, body))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", body)[0]
            if not stream:
                self.window += more
            elif call:
                call.window += more
        elif kind == GOAWAY:
            self.broken = f"goaway {body[8:].decode('latin-1')}"
        elif kind == DATA and body and not self.deaf:
            update = struct.pack(">I", len(body))
            self.send(frame(WINDOW_UPDATE, 0, 0, update) + (frame(WINDOW_UPDATE, 0, stream, update) if call else b""))
        if call:
            if kind == DATA:
                call.take(body)
            call.ended = call.ended or kind == RST_STREAM or (kind in (DATA, HEADERS) and bool(flags & END_STREAM))

    def settle(self, stream, seconds):
        """Reads until the call has ended, for so long at most; whether it has."""
        deadline = time.monotonic() + seconds
        while not self.broken and stream in self.calls and not self.calls[stream].ended:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.read(left)
        return True

    def close(self):
        self.socket.close()
