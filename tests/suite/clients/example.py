import os

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

server = redis.Redis.from_url(os.environ["REDIS_URL"])
server.execute_command("EMULATOR", "RESET")  # no data, faults or time of an earlier test
server.execute_command("EMULATOR", "CLOCK", "FREEZE")

# A lease runs out without anybody waiting for it.
lock = server.lock("resource", timeout=10)
assert lock.acquire()
server.execute_command("EMULATOR", "CLOCK", "ADVANCE", 10_001)
assert not lock.owned()

# The lock is taken, but the reply never comes; sent again, the command says that somebody else has the lock.
server.execute_command("EMULATOR", "FAULT", "DROP-AFTER", "COMMAND", "set")
once = redis.Redis.from_url(os.environ["REDIS_URL"], retry=Retry(NoBackoff(), 0))
try:
    once.set("resource", "me", nx=True, px=10_000)
    raise AssertionError("the connection was dropped")
except redis.ConnectionError:
    assert server.get("resource") == b"me"
assert once.set("resource", "me", nx=True, px=10_000) is None
