"""How long after the host decided on an alarm its client and its hook had it. The faults of the bed's own connection and of the receiver are
counted apart: no daemon delivers through a cable that is cut."""
import threading
import time

HURT_S = 1  # a cut is noticed, and counts, so long after it was made


class Delays:
    """Windows of faults, and (decided, heard) of each alarm, all by the monotonic clock. `steps`: [(when, seconds)] of the daemon's clock."""

    def __init__(self, steps):
        self.steps, self.lock = steps, threading.Lock()
        self.faults = {"connection": [], "receiver": []}
        self.client = []  # (decided, heard, aside)
        self.wall_of_monotonic = time.time() - time.monotonic()

    def begin(self, what):
        """A fault begins; the function that is returned ends it."""
        window = [time.monotonic(), float("inf")]
        with self.lock:
            self.faults[what].append(window)

        def end():
            window[1] = time.monotonic()
        return end

    def hurt(self, what, begin, end):
        with self.lock:
            return any(a <= end and b + HURT_S >= begin for a, b in self.faults[what])

    def decided(self, wall_ms, heard):
        """When the daemon's clock, which is stepped, showed this time: the newest moment before it was heard; None: never."""
        plain = wall_ms / 1000 - self.wall_of_monotonic
        ends = [at for at, _ in self.steps[1:]] + [float("inf")]
        fits = [plain - shift for (at, shift), end in zip(self.steps, ends) if at - 0.1 <= plain - shift <= min(end, heard) + 0.1]
        return max(fits, default=None)

    def arrived(self, wall_ms, connected):
        """A client has an alarm over a connection on which its stream was opened at that time."""
        heard = time.monotonic()
        decided = self.decided(wall_ms, heard)
        if decided is not None:
            with self.lock:
                self.client.append((decided, heard, connected))

    def of_clients(self):
        """A stream whose connection was cut while its alarm was on the way, or was not yet open again, hears of it late."""
        return self.figures((heard - decided, self.hurt("connection", min(decided, connected) - HURT_S if connected > decided else decided, heard))
                            for decided, heard, connected in self.client)

    def of_hook(self, alarms):
        """alarms: (Unix time in ms at which it was decided, when it was told)."""
        at = [(self.decided(wall_ms, heard), heard) for wall_ms, heard in alarms]
        return self.of_decided((decided, heard) for decided, heard in at if decided is not None)

    def of_decided(self, alarms):
        """alarms: (when it was decided, when it was told)."""
        return self.figures((heard - decided, self.hurt("receiver", decided, heard)) for decided, heard in alarms)

    @staticmethod
    def figures(delays):
        delays = list(delays)
        counted = sorted(max(0.0, s) for s, aside in delays if not aside)
        def quantile(q):
            return round(counted[int(q * (len(counted) - 1))], 3) if counted else None
        return {"n": len(counted), "aside": len(delays) - len(counted), "p50": quantile(0.5), "p99": quantile(0.99), "highest": quantile(1)}
