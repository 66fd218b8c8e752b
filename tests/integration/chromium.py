"""Chromium without a window, driven by its DevTools protocol: pages, screenshots, what the console says, which hosts are asked."""
import base64
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

from daemon import PATIENCE


# A hand that moves over the element that over() returns whenever the page reads its clock, so that it never rests. That clock runs at most a
# second from one reading to the next, and not at all while hand.stands: what a page does while somebody points at it does not depend on the machine.
HAND = """(over => { window.hand ||= (() => {
    const plain = Date.now, hand = {buttons: 0};
    let at = plain(), lost = 0, moves = false;
    Date.now = () => {
        const step = plain() - lost - at, most = hand.stands ? 0 : 1000;
        lost += Math.max(0, step - most);
        at += Math.min(step, most);
        if (!moves && hand.over) {
            moves = true;
            hand.over()?.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, buttons: hand.buttons}));
            moves = false;
        }
        return at;
    };
    addEventListener('pointerdown', (event) => { hand.buttons = 1, hand.pressed = event.target; }, true);
    addEventListener('pointerup', () => { hand.buttons = 0; }, true);
    return hand;
})(); hand.over = over; Date.now(); })"""


class WebSocket:
    """Just enough of RFC 6455 for one peer that is trusted: text messages of any length."""

    def __init__(self, url):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self.socket = socket.create_connection((name, int(port)), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(65536)
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        assert b" 101 " in head.splitlines()[0], head

    def take(self, n):
        while len(self.buffer) < n:
            data = self.socket.recv(1 << 20)
            assert data, "the browser closed the connection"
            self.buffer += data
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def send(self, text):
        data = text.encode()
        size = struct.pack("!B", 0x80 | len(data)) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data)) if len(data) < 65536 \
            else struct.pack("!BQ", 0x80 | 127, len(data))
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + data)  # a mask of zeros

    def ready(self, seconds):
        """True once the next message has begun to come."""
        return bool(self.buffer or select.select([self.socket], [], [], max(0, seconds))[0])

    def receive(self):
        text = b""
        while True:
            first, size = self.take(2)
            if size == 126:
                size, = struct.unpack("!H", self.take(2))
            elif size == 127:
                size, = struct.unpack("!Q", self.take(8))
            data = self.take(size)
            if first & 15 in (0, 1):
                text += data
                if first & 128:
                    return text.decode()


class Chromium:
    def __init__(self, *options, prefix=()):
        self.folder = tempfile.mkdtemp(prefix="brr-chromium-")
        self.errors, self.urls, self.number = [], [], 0
        command = [*prefix, shutil.which("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--remote-debugging-port=0", f"--user-data-dir={self.folder}", *options, "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = f"{self.folder}/DevToolsActivePort"
        deadline = time.time() + PATIENCE
        while not (os.path.exists(port) and "\n" in open(port, encoding="ascii").read()):
            assert self.process.poll() is None and time.time() < deadline, "chromium did not start"
            time.sleep(0.05)
        self.port = open(port, encoding="ascii").readline().strip()
        targets = json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json", timeout=PATIENCE))
        self.attach(next(t for t in targets if t["type"] == "page"))

    def attach(self, target):
        self.socket = WebSocket(target["webSocketDebuggerUrl"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def another(self):
        """A second window of the same browser, which ends with it."""
        other = object.__new__(Chromium)
        other.errors, other.urls, other.number = self.errors, self.urls, 0
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        other.attach(json.load(urllib.request.urlopen(request, timeout=PATIENCE)))
        return other

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def note(self, message):
        what, p = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(p["exceptionDetails"])[:500])
        elif what == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(p["args"])[:500])
        elif what == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{p['entry'].get('url', '')}: {p['entry']['text']}")
        elif what == "Network.requestWillBeSent":
            self.urls.append(p["request"]["url"])

    def call(self, method, seconds=PATIENCE, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        deadline = time.time() + seconds
        while True:
            if not self.socket.ready(deadline - time.time()):
                raise TimeoutError(f"no answer to {method} within {seconds} s")
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.note(message)

    def run(self, script, seconds=PATIENCE):
        """The value of an expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", seconds, expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def open(self, url):
        assert "errorText" not in self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def wait(self, condition, seconds=PATIENCE):
        """Until the expression, or what its promise gives, is true: looked at at each tick of the page, not from here."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            try:
                if self.run(f"(async () => {{ for (let n = 0; n < 100; n++) {{ if (await ({condition})) return true; "
                            "await new Promise(later => setTimeout(later, 20)); } return false; })()", 15):
                    return
            except (AssertionError, TimeoutError):  # the page was left in between, and its promise may never be answered
                time.sleep(0.05)
        raise AssertionError(f"never in the page: {condition}\n{self.run('document.body.innerText')[:3000]}")

    def place(self, element):
        """The middle of the element that this expression names."""
        at = self.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({element}.getBoundingClientRect())")
        return {"x": at[0], "y": at[1]}

    def mouse(self, kind, at):
        button = {} if kind == "mouseMoved" else {"button": "left", "buttons": int(kind == "mousePressed"), "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, **at, **button)

    def point(self, element):
        """A hand is over the element, and does not rest; where that is."""
        self.wait(element)
        self.run(f"{element}.scrollIntoView({{block: 'center'}}); {HAND}(() => {element})")
        at = self.place(element)
        self.mouse("mouseMoved", at)
        return at

    def rest(self):
        self.run("hand.over = null")

    def click(self, element):
        """Of what an expression names: at its place, which the page keeps meanwhile."""
        at = self.point(element)
        self.mouse("mousePressed", at)
        assert self.run("hand.over().contains(hand.pressed)"), (element, self.run("hand.pressed?.outerHTML"))
        self.rest()
        self.mouse("mouseReleased", at)

    def size(self, width, height, dark=False, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                          {"name": "prefers-reduced-motion", "value": "reduce"}])

    def cut_tiles(self):
        """The texts of the tiles that are smaller than what is in them."""
        return self.run("""[...document.querySelectorAll('.tile')].filter(t => t.scrollWidth > t.clientWidth ||
            t.scrollHeight > t.clientHeight + 1).map(t => t.innerText)""")

    def screenshot(self, path, whole=False):
        params = {"captureBeyondViewport": True} if whole else {}
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["clip"] = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 4000), "scale": 1}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **params)["data"]))
