import os

import redis

server = redis.Redis.from_url(os.environ["REDIS_URL"])
server.execute_command("EMULATOR", "CLOCK", "FREEZE")

# A lease runs out without anybody waiting for it.
lock = server.lock("resource", timeout=10)
assert lock.acquire()
server.execute_command("EMULATOR", "CLOCK", "ADVANCE", 10_001)
assert not lock.owned()

# The lock is taken, but the client never hears of it.
server.execute_command("EMULATOR", "FAULT", "DROP-AFTER", "COMMAND", "set")
impatient = redis.Redis.from_url(os.environ["REDIS_URL"], retry=None)
try:
    impatient.set("resource", "me", nx=True, px=10_000)
except redis.ConnectionError:
    assert server.get("resource") == b"me"
