"""What redis-py does with Sentinels of the emulator. REDIS_SENTINELS has their addresses; they allow control."""

import os

import redis
from redis.exceptions import LockNotOwnedError
from redis.sentinel import Sentinel

ADDRESSES = [address.rsplit(":", 1) for address in os.environ["REDIS_SENTINELS"].split()]
watch = redis.Redis(host=ADDRESSES[1][0], port=int(ADDRESSES[1][1]))
watch.execute_command("EMULATOR", "RESET")
watch.execute_command("EMULATOR", "CLOCK", "FREEZE")

sentinel = Sentinel([(host, int(port)) for host, port in ADDRESSES])
before = sentinel.discover_master("mymaster")
assert len(sentinel.discover_slaves("mymaster")) == 2

primary = sentinel.master_for("mymaster")
primary.set("k", "v")
assert sentinel.slave_for("mymaster").get("k") == b"v"

# A planned failover: a service with an open connection does not notice, so the lock has two holders.
service = redis.Redis(*before)
service.ping()
events = watch.pubsub(ignore_subscribe_messages=True)
events.subscribe("+switch-master")
assert events.get_message(timeout=10) is None  # the confirmation
assert watch.sentinel_failover("mymaster")
told = events.get_message(timeout=10)
after = sentinel.discover_master("mymaster")
assert after != before
assert told["data"].decode() == f"mymaster {before[0]} {before[1]} {after[0]} {after[1]}"
old_lock = service.lock("resource", timeout=30)
new_lock = redis.Redis(*after).lock("resource", timeout=30)
assert old_lock.acquire() and new_lock.acquire()
assert old_lock.owned() and new_lock.owned()

# After 8 s of the clock, the Sentinels make the old primary a replica, and it loses the lock.
watch.execute_command("EMULATOR", "CLOCK", "ADVANCE", 8000)
assert sentinel.discover_master("mymaster") == after
assert not old_lock.owned()
try:
    old_lock.release()
    raise AssertionError("it released a lock of another client")
except (LockNotOwnedError, redis.exceptions.ReadOnlyError):
    pass
new_lock.release()

# The pool of the first client finds the new primary when its connection has been closed.
primary.set("k", "w")
assert redis.Redis(*after).get("k") == b"w"

# A primary that the Sentinels lose is replaced; it goes on alone.
service = redis.Redis(*after)
for host, port in ADDRESSES:
    service.execute_command("EMULATOR", "PARTITION", host, port)
watch.execute_command("EMULATOR", "CLOCK", "ADVANCE", 30_000)
last = sentinel.discover_master("mymaster")
assert last != after
service.set("k", "alone")
assert redis.Redis(*last).get("k") == b"w"
watch.execute_command("EMULATOR", "RESET")
print("redis-py", redis.__version__, "with Sentinels: ok")
