"""What one client has written, and so what it may read. No other client writes its keys.

Each number that it reads has a floor and a ceiling. The floor is what was acknowledged before; it holds until writes
may be lost. The ceiling is what the client has tried to write. The same model judges clients of redis-rs, in
emulator/tests/suite/random_failovers.
"""

import hashlib

INCREMENT_BOTH = "return {redis.call('INCR', KEYS[1]), redis.call('INCR', KEYS[2])}"
SHA = hashlib.sha1(INCREMENT_BOTH.encode()).hexdigest()
# How long a client waits for an element of its list.
PATIENCE_S = 0.02
# No client here sends a request more often than this by itself.
RESENDS_MAX = 20
# The errors that a real server may reply while servers fail over and slots move. A timeout is none, because servers
# reply at once.
CODES = {
    "ASK",
    "CLUSTERDOWN",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MOVED",
    "NOREPLICAS",
    "NOSCRIPT",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    # The client itself finds no server at the moment, or its connection ends.
    "no server",
}


class Failure(Exception):
    """An error in place of a reply: its code, and its text."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Number:
    """A number of which the client knows bounds. It only grows, unless writes are lost."""

    def __init__(self):
        # The highest number if each attempt to write has succeeded.
        self.ceiling = 0
        self.floor = 0
        # When the floor was acknowledged, in losses so far.
        self.since = 0

    def see(self, number, began, ended):
        """Sees the number in a reply. Says why it cannot be that, if it cannot."""
        if number > self.ceiling:
            return f"{number} was never written: at most {self.ceiling}"
        if self.since == ended and number < self.floor:
            return f"{self.floor} was acknowledged, and now it is {number}"
        # A number that was read while writes may be lost says nothing of later ones.
        is_kept = began == ended and began % 2 == 0
        self.floor, self.since = (number, began) if is_kept else (0, 0)
        return None


class Ledger:
    def __init__(self, tag):
        """The tag is what the names of all keys begin with. It puts them into one hash slot."""
        self.tag = tag
        self.register, self.counter, self.pair, self.list = (Number() for _ in range(4))
        self._is_script_known = True

    def next(self, rng):
        """The next request: its commands, which are a transaction if they are two; and a judge of the value."""
        register, counter, a, b, queue = (self.tag + name for name in ("register", "counter", "a", "b", "list"))
        match rng.randrange(8):
            case 0:
                self.register.ceiling += 1
                return [["SET", register, self.register.ceiling]], self._written(self.register.ceiling)
            case 1:
                return [["GET", register]], lambda value, *losses: self.register.see(int(value or 0), *losses)
            case 2:
                self.counter.ceiling += 1 + RESENDS_MAX
                return [["INCR", counter]], lambda value, *losses: self.counter.see(int(value), *losses)
            case 3:
                self.pair.ceiling += 1 + RESENDS_MAX
                script = ["EVALSHA", SHA] if self._is_script_known else ["EVAL", INCREMENT_BOTH]
                return [[*script, 2, a, b]], self._see_pair
            case 4:
                self.pair.ceiling += 1 + RESENDS_MAX
                return [["INCR", a], ["INCR", b]], self._see_pair
            case 5:
                return [["MGET", a, b]], self._see_pair
            case 6:
                self.list.ceiling += 1
                return [["RPUSH", queue, self.list.ceiling]], lambda value, *_: None if value > 0 else "it is empty"
            case _:
                return [["BLPOP", queue, PATIENCE_S]], self._popped

    def judge(self, see, reply, began, ended):
        """Says why no real server could have given this reply, if none could. Began and ended are losses so far."""
        if isinstance(reply, Failure):
            self._is_script_known = self._is_script_known and reply.code != "NOSCRIPT"
            return None if reply.code in CODES else str(reply)
        try:
            return see(reply, began, ended)
        except (TypeError, ValueError, IndexError) as error:
            return f"{reply!r}: {error}"

    def _written(self, number):
        def see(value, *losses):
            return self.register.see(number, *losses) if value in (True, "OK") else f"{value!r} is not OK"

        return see

    def _see_pair(self, value, *losses):
        self._is_script_known = True
        a, b = value
        return self.pair.see(int(a or 0), *losses) if a == b else f"two that change together differ: {value}"

    def _popped(self, value, *losses):
        if value is None:
            return None
        _, element = value
        return self.list.see(int(element), *losses) if int(element) else "zero was never pushed"
