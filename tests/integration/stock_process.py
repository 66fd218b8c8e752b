"""stock_process: calls of stock grpcio in a process of its own. When a daemon went away and came back, a call of grpcio 1.51 sometimes never
returns, without a socket, also after cancel(). A thread in such a call could only be left behind; a process is killed, and counted."""
import itertools
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time

import grpc

LIMITED = {"grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 200, "grpc.use_local_subchannel_pool": 1}
# Frames of the pipes: kind, number of the call, bytes that follow. To the process: O(pen) with the method, M(essage), H(alf-close),
# X (cancel). From it: M(essage), E(nd) with code, details and trailing metadata.
FRAME = struct.Struct("<cIQ")


class CallError(grpc.RpcError):
    def __init__(self, code, details, trailing):
        super().__init__(f"{code}: {details}")
        self._parts = grpc.StatusCode[code], details, trailing

    def code(self):
        return self._parts[0]

    def details(self):
        return self._parts[1]

    def trailing_metadata(self):
        return self._parts[2]


def send(pipe, kind, number, data=b""):
    pipe.write(FRAME.pack(kind, number, len(data)) + data)
    pipe.flush()


def frames(pipe):
    while len(head := pipe.read(FRAME.size)) == FRAME.size:
        kind, number, size = FRAME.unpack(head)
        yield kind, number, pipe.read(size)


class Client:
    """A process that makes calls to one endpoint, each over a channel of its own. Stands where generated stubs want a channel."""

    patience_s = 30  # without a message, after which a call is cancelled
    cancel_s = 10  # after which it hangs: a cancelled call ends at once, whatever the daemon does
    hung = 0  # processes that had to be killed, of all clients

    def __init__(self, endpoint, proves=True):
        self.endpoint, self.proves = endpoint, proves
        self.calls, self.numbers, self.pipe = {}, itertools.count(1), threading.Lock()
        self.process = None

    def stream_stream(self, method, request_serializer, response_deserializer, **_):
        return lambda requests: Call(self, method, map(request_serializer, requests), response_deserializer)

    def running(self):
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, __file__, self.endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            threading.Thread(target=self.read, args=(self.process,), daemon=True).start()
        return self.process

    def read(self, process):
        for kind, number, data in frames(process.stdout):
            self.calls[number].answers.put((kind, data))

    def give_up(self):
        """Kills the process, which hangs, if the daemon is well: another process gets an answer from it."""
        if self.proves:
            prove_alive(self.endpoint)
            Client.hung += 1
            print(f"a call of stock grpcio hangs, also after cancel(), while the daemon answers another client: process {self.process.pid} is killed", flush=True)
        self.close()

    def close(self):
        process, self.process = self.process, None
        if process:
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Call:
    """Iterates over the answers as a call of grpcio does, but not for ever."""

    def __init__(self, client, method, requests, deserialize):
        self.client, self.process, self.deserialize = client, client.running(), deserialize
        self.number, self.answers = next(client.numbers), queue.Queue()
        self.until, self.cancelled = time.monotonic() + self.client.patience_s, False
        client.calls[self.number] = self
        self.tell(b"O", method.encode())
        threading.Thread(target=self.write, args=(requests,), daemon=True).start()

    def tell(self, kind, data=b"", wait_s=-1):
        if not self.client.pipe.acquire(timeout=wait_s):
            return  # a process that hangs does not read either
        try:
            send(self.process.stdin, kind, self.number, data)
        except (BrokenPipeError, ValueError):  # it was killed
            pass
        finally:
            self.client.pipe.release()

    def write(self, requests):
        for data in requests:
            self.tell(b"M", data)
        self.tell(b"H")

    def cancel(self):
        self.cancelled, self.until = True, time.monotonic() + self.client.cancel_s
        self.tell(b"X", wait_s=1)

    def receive(self):
        while True:
            try:
                return self.answers.get(timeout=0.2)
            except queue.Empty:
                if time.monotonic() < self.until:
                    continue
            if self.cancelled:
                self.client.give_up()
                return b"E", pickle.dumps(("CANCELLED", "the client hung and was killed", ()))
            self.cancel()

    def __iter__(self):
        return self

    def __next__(self):
        kind, data = self.receive()
        if not self.cancelled:
            self.until = time.monotonic() + self.client.patience_s
        if kind == b"M":
            return self.deserialize(data)
        self.answers.put((kind, data))  # for who asks again
        code, details, trailing = pickle.loads(data)
        if code == "OK":
            raise StopIteration
        raise CallError(code, details, trailing)


def prove_alive(endpoint):
    """Another process gets an answer from the daemon, which may be starting."""
    deadline, error = time.monotonic() + 600, None
    while time.monotonic() < deadline:
        with Client(endpoint, proves=False) as other:
            try:
                if list(other.stream_stream("/grpc.health.v1.Health/Check", bytes, bytes)(iter([b""]))) == [b"\x08\x01"]:
                    return
            except grpc.RpcError as e:
                error = e
        time.sleep(0.2)
    raise AssertionError(f"a call hangs, and the daemon answers no other client either: {error}")


# ---- in the process ----


class Calls:
    def __init__(self, endpoint):
        self.endpoint, self.open, self.lock = endpoint, {}, threading.Lock()

    def answer(self, kind, number, data):
        with self.lock:
            send(sys.stdout.buffer, kind, number, data)

    def run(self, number, method, made):
        requests = queue.Queue()
        with grpc.insecure_channel(self.endpoint, options=list(LIMITED.items())) as channel:
            call = channel.stream_stream(method)(iter(requests.get, None))
            self.open[number] = requests, call
            made.set()
            try:
                for message in call:
                    self.answer(b"M", number, message)
            except grpc.RpcError:
                pass
            self.answer(b"E", number, pickle.dumps((call.code().name, call.details(), [(k, v) for k, v in call.trailing_metadata() or ()])))
        requests.put(None)

    def serve(self):
        for kind, number, data in frames(sys.stdin.buffer):
            if kind == b"O":
                made = threading.Event()
                threading.Thread(target=self.run, args=(number, data.decode(), made), daemon=True).start()
                made.wait()
                continue
            requests, call = self.open[number]
            if kind == b"X":
                call.cancel()
            else:
                requests.put(data if kind == b"M" else None)


if __name__ == "__main__":
    Calls(sys.argv[1]).serve()
