"""What redis-py does with the emulator, on RESP2 and RESP3. REDIS_URL names a server that allows control."""

import os
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.utils import HIREDIS_AVAILABLE

CLIENT = f"redis-py {redis.__version__}" + (" with hiredis" if HIREDIS_AVAILABLE else "")
URL = os.environ["REDIS_URL"]
# Left alone, the client sends a command again when its connection is dropped.
ONCE = Retry(NoBackoff(), 0)


class Session:
    """A client of an empty server whose clock stands, and the way to a second client."""

    def __init__(self, protocol):
        self.protocol = protocol
        self.r = self.connect()
        self.r.execute_command("EMULATOR", "RESET")
        self.clock("FREEZE")

    def connect(self, **options):
        options = {"protocol": self.protocol, "decode_responses": True, **options}
        return redis.Redis.from_url(URL, **options)

    def clock(self, *words):
        return self.r.execute_command("EMULATOR", "CLOCK", *words)

    def fault(self, *words):
        return self.r.execute_command("EMULATOR", "FAULT", *words)

    def wait_for_blocked(self, n):
        """The server says when so many clients wait: no guess, no sleep."""
        assert self.r.execute_command("EMULATOR", "WAIT-BLOCKED", n) >= n

    def in_background(self, function):
        """Runs it with a client of its own; the result comes from calling what is returned."""
        results = []
        client = self.connect()
        thread = threading.Thread(target=lambda: results.append(function(client)))
        thread.start()

        def join():
            thread.join(30)
            assert results, "it still waits"
            return results[0]

        return join


def ready(s):
    assert s.r.ping()
    assert s.r.info("server")["redis_version"] == "7.0.15"
    named = s.connect(client_name="me", db=3)
    assert named.client_getname() == "me"
    named.set("here", 1)
    assert not s.r.exists("here")


def expiry(s):
    s.r.set("k", "v", px=1000)
    assert s.r.pttl("k") == 1000
    s.clock("ADVANCE", 1000)
    assert s.r.get("k") == "v", "at the deadline it is still there"
    s.clock("ADVANCE", 1)
    assert s.r.get("k") is None


def lock_by_hand(s):
    release = s.r.register_script(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
    )
    assert s.r.set("lock", "a", nx=True, px=10_000)
    assert s.r.set("lock", "b", nx=True, px=10_000) is None
    assert release(keys=["lock"], args=["b"]) == 0
    assert release(keys=["lock"], args=["a"]) == 1
    assert s.r.set("lock", "b", nx=True, px=10_000)


def lock_of_the_library(s):
    first, second = s.r.lock("lock", timeout=10), s.connect().lock("lock", timeout=10)
    assert first.acquire(blocking=False)
    assert not second.acquire(blocking=False)
    assert first.extend(5)
    s.clock("ADVANCE", 15_001)
    assert second.acquire(blocking=False)
    try:
        first.release()
        raise AssertionError("it was not its lock any more")
    except redis.exceptions.LockNotOwnedError:
        pass
    second.release()


def pipeline(s):
    assert s.r.pipeline(transaction=False).set("k", 1).incr("k").get("k").execute() == [True, 2, "2"]


def transaction(s):
    def double(pipe):
        n = int(pipe.get("n"))
        pipe.multi()
        pipe.set("n", 2 * n)

    s.r.set("n", 21)
    assert s.r.transaction(double, "n") == [True]
    assert s.r.get("n") == "42"
    pipe = s.r.pipeline()
    pipe.watch("n")
    s.connect().incr("n")
    pipe.multi()
    pipe.set("n", 0)
    try:
        pipe.execute()
        raise AssertionError("the key has changed")
    except redis.WatchError:
        assert s.r.get("n") == "43"


def scripts(s):
    script = s.r.register_script("return {KEYS[1], ARGV[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
    assert script(keys=["n"], args=[5]) == ["n", "5", 5]
    s.r.script_flush()
    assert script(keys=["n"], args=[5]) == ["n", "5", 10], "EVALSHA fails, and the script is loaded"
    sha = s.r.script_load("return redis.call('TIME')[1]")
    assert s.r.script_exists(sha) == [True]
    before = s.r.evalsha(sha, 0)
    s.clock("ADVANCE", 3000)
    assert int(s.r.evalsha(sha, 0)) == int(before) + 3


def pubsub(s):
    listener = s.connect().pubsub()
    listener.subscribe("news")
    listener.psubscribe("w*")
    assert [listener.get_message(timeout=30)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
    assert (s.r.publish("news", "a"), s.r.publish("weather", "b")) == (1, 1)
    messages = [listener.get_message(timeout=30) for _ in range(2)]
    assert [(m["type"], m["channel"], m["data"]) for m in messages] == [
        ("message", "news", "a"),
        ("pmessage", "weather", "b"),
    ]
    listener.close()


def blocking(s):
    popped = s.in_background(lambda client: client.blpop(["list"], timeout=0))
    s.wait_for_blocked(1)
    s.r.rpush("list", "a")
    assert tuple(popped()) == ("list", "a")
    timed_out = s.in_background(lambda client: client.blpop(["list"], timeout=3600))
    s.wait_for_blocked(1)
    s.clock("ADVANCE", 3_600_000)
    assert timed_out() is None


def types(s):
    s.r.hset("hash", mapping={"a": 1, "b": 2})
    assert s.r.hgetall("hash") == {"a": "1", "b": "2"}
    s.r.sadd("set", "a", "b")
    assert s.r.smembers("set") == {"a", "b"}
    s.r.zadd("zset", {"a": 1, "b": 2.5})
    pairs = [(member, float(score)) for member, score in s.r.zrange("zset", 0, -1, withscores=True)]
    assert pairs == [("a", 1.0), ("b", 2.5)]
    assert s.r.zscore("zset", "b") == 2.5
    assert sorted(s.r.scan_iter("*")) == ["hash", "set", "zset"]


def faults(s):
    client = s.connect(retry=ONCE, client_name="victim")
    assert client.incr("n") == 1
    s.fault("DROP-BEFORE", "CLIENT", "victim")
    try:
        client.incr("n")
        raise AssertionError("the connection was dropped")
    except redis.ConnectionError:
        assert s.r.get("n") == "1"
    s.fault("DROP-AFTER", "COMMAND", "incrby")
    try:
        client.incr("n")
        raise AssertionError("the connection was dropped")
    except redis.ConnectionError:
        assert s.r.get("n") == "2"
    s.fault("ERROR", "READONLY", "COMMAND", "set")
    try:
        s.r.set("n", 0)
        raise AssertionError("the server is read-only")
    except redis.ReadOnlyError:
        assert s.r.set("n", 0)
    s.fault("LOSE-REPLY", "COMMAND", "set")
    try:
        s.connect(retry=ONCE, socket_timeout=0.05).set("n", 7)
        raise AssertionError("the reply was lost")
    except redis.TimeoutError:
        assert s.r.get("n") == "7"


TESTS = [
    ready,
    expiry,
    lock_by_hand,
    lock_of_the_library,
    pipeline,
    transaction,
    scripts,
    pubsub,
    blocking,
    types,
    faults,
]

for protocol in [2, 3]:
    for test in TESTS:
        try:
            test(Session(protocol))
        except BaseException:
            print(f"{CLIENT}, RESP{protocol}: {test.__name__} failed")
            raise
print(f"{CLIENT}: {len(TESTS)} tests passed on RESP2, and on RESP3")
