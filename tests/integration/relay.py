"""A relay between a client and a daemon that cuts connections when it is told to: what a cable or a switch does."""
import os
import random
import selectors
import socket
import threading
import time

SPARED_BYTES = 20000


class Relay:
    """Listens at .endpoint, on a unix socket where target is a path and on 127.0.0.1 where it is a port. .cut() ends what is connected; cut_at_random cuts in a thread; .cuts counts connections that were cut.
    .expect(): the next connection is a new client's, and is spared until the client has sent so much that its stream must be open.
    .hold() cuts, and takes no connection before .release()."""

    def __init__(self, directory, target, seed):
        self.path = os.path.join(directory, "relay.sock") if isinstance(target, str) else None
        self.target = target
        self.random = random.Random(seed)
        self.cuts = 0
        self.pairs = {}  # socket -> the other side
        self.lock = threading.Lock()
        self.stopped = self.held = self.expected = False
        self.spared = {}  # client socket -> bytes that it still has to send
        self.listener = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        self.listener.bind(self.path or ("127.0.0.1", 0))
        self.listener.listen(64)
        self.endpoint = f"unix:{self.path}" if self.path else f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.threads = [threading.Thread(target=self.run, daemon=True)]
        self.threads[0].start()

    def drop(self, s):
        for end in (s, self.pairs.pop(s, None)):
            if end is None:
                continue
            self.pairs.pop(end, None)
            self.spared.pop(end, None)
            try:
                self.selector.unregister(end)
            except (KeyError, ValueError):
                pass
            end.close()

    def accept(self):
        client, _ = self.listener.accept()
        if self.held:
            client.close()
            return
        daemon = socket.socket(self.listener.family)
        try:
            daemon.connect(self.target if self.path else ("127.0.0.1", self.target))
        except OSError:  # no daemon at present
            client.close()
            return
        self.pairs[client], self.pairs[daemon] = daemon, client
        if self.expected:
            self.spared[client] = SPARED_BYTES
            self.expected = False
        for s in (client, daemon):
            self.selector.register(s, selectors.EVENT_READ)

    def run(self):
        while not self.stopped:
            for key, _ in self.selector.select(timeout=0.05):
                with self.lock:
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.pairs:
                        self.forward(key.fileobj)

    def forward(self, s):
        try:
            data = s.recv(65536)
            if data:
                if s in self.spared and (left := self.spared.pop(s) - len(data)) > 0:
                    self.spared[s] = left
                self.pairs[s].sendall(data)
                return
        except OSError:
            pass
        self.drop(s)

    def cut(self):
        with self.lock:
            for s in list(self.pairs):
                if s in self.pairs and not {s, self.pairs[s]} & set(self.spared):
                    self.cuts += 1
                    self.drop(s)

    def expect(self):
        self.expected = True

    def hold(self):
        self.held = True
        self.cut()

    def release(self):
        self.held = False

    def cut_at_random(self, shortest_s, longest_s):
        def cutter():
            while not self.stopped:
                time.sleep(self.random.uniform(shortest_s, longest_s))
                self.cut()
        self.threads.append(threading.Thread(target=cutter, daemon=True))
        self.threads[-1].start()

    def close(self):
        self.stopped = True
        for t in self.threads:
            t.join()
        self.cut()
        self.listener.close()
        if self.path:
            os.unlink(self.path)
