"""The servers, and what happens to them.

Each failover ends with servers that are up, reach each other and agree who the primaries are. Real servers have only
the failovers that need no command of the emulator.
"""

import time
from contextlib import suppress

import redis

from course import Wrong

NAME = "mymaster"
# After this time, a server that is out of reach counts as down.
DOWN_AFTER_MS = 30_000
# After this time, Sentinels have made the old primary a replica, and a primary that was alone serves again.
RETURN_AFTER_MS = 8_000
# How often this time passes until all servers agree.
LOOKS_MAX = 8
# How late writes arrive at a replica that lags.
LAG_MS = 1_000
# Real servers may need as long for what follows from a failover.
REAL_WAIT_MAX_S = 90
# How often real servers are looked at until an order is given again: for ten seconds.
LOOKS_PER_ORDER = 200


class Server:
    def __init__(self, host, port):
        self.host = host
        self.port = int(port)

    def run(self, *words):
        """Runs a command at this server, on a connection of its own: a failover closes others."""
        options = {"decode_responses": True, "protocol": 2, "lib_name": None, "lib_version": None}
        with redis.Redis(host=self.host, port=self.port, **options) as client:
            # Replies are judged as the server sends them.
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def role(self):
        return self.run("ROLE")[0]

    def follows(self):
        """Whether it is no replica, or one that has what its primary has."""
        role = self.run("ROLE")
        return role[0] == "master" or role[3] == "connected"

    def __repr__(self):
        return str(self.port)


class Group:
    def __init__(self, kind, servers, sentinels=(), is_real=False):
        self.kind = kind
        self.servers = servers
        self.sentinels = sentinels
        self.is_real = is_real

    @classmethod
    def of_emulator(cls, kind, url, sentinels):
        first = Server(*url.removeprefix("redis://").rstrip("/").rsplit(":", 1))
        first.run("EMULATOR", "RESET")
        if kind == "cluster":
            nodes = [line.split()[1] for line in first.run("CLUSTER", "NODES").splitlines()]
            servers = [Server(*address.split("@")[0].rsplit(":", 1)) for address in nodes]
        else:
            servers = [first, *(Server(host, port) for host, port, _ in first.run("ROLE")[2])]
        group = cls(kind, servers, [Server(*address.rsplit(":", 1)) for address in sentinels])
        for sentinel in group.sentinels:
            # Otherwise they wait long between two attempts.
            sentinel.run("SENTINEL", "SET", NAME, "failover-timeout", 1000)
        return group

    def addresses(self):
        """Where clients begin."""
        return [(server.host, server.port) for server in self.sentinels or self.servers]

    def fail_over(self, rng, course, ways=None):
        """Lets a primary fail over in a random way. Every client then gets a reply that is no error."""
        way = rng.choice(ways or WAYS[self.kind, self.is_real])
        try:
            if not self.is_real and rng.randrange(4) == 0:
                self.primary(rng).run("EMULATOR", "RESTART", "LOSING", "NONE")
            if self.kind == "cluster" and not self.is_real and rng.randrange(4) == 0:
                move_slot(self, rng, course)
            way(self, rng, course)
            if not self.is_real:
                for server in self.servers:
                    if server.role() == "slave":
                        server.run("EMULATOR", "LAG", "NONE")
            self.settle()
            course.demand(1)
        except (Wrong, redis.RedisError) as error:
            raise Wrong(f"{way.__name__}: {error!r}") from error

    def primary(self, rng):
        """A primary, once it has a replica: one that has begun to follow it may not be listed yet."""
        primary = rng.choice([server for server in self.servers if server.role() == "master"])
        self.wait_for(lambda: primary.run("ROLE")[2], lambda: f"{primary} gets no replica")
        return primary

    def replica(self, primary, rng):
        """A replica of a primary."""
        _, port, _ = rng.choice(primary.run("ROLE")[2])
        return next(server for server in self.servers if server.port == int(port))

    def advance(self, millis):
        """Lets time pass for all servers of the emulator."""
        if not self.is_real:
            self.servers[0].run("EMULATOR", "CLOCK", "ADVANCE", millis)

    def heal(self):
        self.servers[0].run("EMULATOR", "HEAL")
        self.settle()

    def settle(self):
        """Waits until old primaries are replicas, all servers agree, and all slots are served."""
        self.advance(RETURN_AFTER_MS)
        self.wait_for(lambda: not self.disagreement(), self.disagreement)

    def order(self, server, words, is_done, describe):
        """Gives an order to a server, and waits until that is done. Real servers may drop it, so it is given again."""
        server.run(*words)
        self.wait_for(is_done, describe, lambda: server.run(*words))

    def wait_for(self, is_done, describe, order_again=None):
        """Waits for what follows from a failover."""
        end = time.monotonic() + REAL_WAIT_MAX_S
        looks = 0
        while not is_done():
            looks += 1
            if self.is_real:
                time.sleep(0.05)
                if order_again and looks % LOOKS_PER_ORDER == 0:
                    with suppress(redis.ResponseError):
                        order_again()
            else:
                self.advance(RETURN_AFTER_MS)
            if time.monotonic() > end if self.is_real else looks > LOOKS_MAX:
                raise Wrong(describe())

    def disagreement(self):
        """What keeps the servers from agreeing who the primaries are, if anything does."""
        roles = {server: server.role() for server in self.servers}
        serves = True
        primaries = sorted(server.port for server, role in roles.items() if role == "master")
        if self.kind == "cluster":
            views = [server.run("CLUSTER", "SLOTS") for server in self.servers]
            views = [sorted({int(primary[1]) for _, _, primary, *_ in view}) for view in views]
            serves = all("cluster_state:ok" in server.run("CLUSTER", "INFO") for server in self.servers)
        elif self.kind == "sentinels":
            views = [[int(sentinel.run("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])] for sentinel in self.sentinels]
        else:
            views = []
        expected = 3 if self.kind == "cluster" else 1
        agree = len(primaries) == expected and all(view == primaries for view in views)
        late = [server for server in self.servers if not server.follows()]
        if agree and serves and not late:
            return None
        seen = f"{roles}, {views}, all slots are served: {serves}, without all data: {late}"
        return f"the servers do not agree who the primaries are: {seen}"


def crash(group, rng, course):
    """A primary crashes, and a replica takes over, which has everything."""
    group.primary(rng).run("EMULATOR", "FAILOVER")


def lag(group, rng, course):
    """A primary crashes, and the replica lacks what was written lately."""
    primary = group.primary(rng)
    replica = group.replica(primary, rng)
    replica.run("EMULATOR", "LAG", "HOLD")
    course.pause(rng.randint(1, 4))
    with course.lose():
        primary.run("EMULATOR", "FAILOVER", "TO", replica.host, replica.port)


def hand_over(group, rng, course):
    """A replica takes over by an order, when it has everything."""
    primary = group.primary(rng)
    replica = group.replica(primary, rng)
    if group.kind == "cluster":
        server, words = replica, ["CLUSTER", "FAILOVER"]
    elif rng.randrange(2):
        server, words = primary, ["FAILOVER"]
    else:
        server, words = primary, ["FAILOVER", "TO", replica.host, replica.port]
    group.order(server, words, lambda: primary.role() == "slave", lambda: f"{primary} is not replaced")


def hand_over_late(group, rng, course):
    """The same while writes arrive late. So the primary holds new writes back until all have arrived."""
    primary = group.primary(rng)
    for server in group.servers:
        if server.role() == "slave":
            server.run("EMULATOR", "LAG", LAG_MS)
    course.pause(1)
    hand_over(group, rng, course)


def seize(group, rng, course):
    """A replica of a cluster takes over without the consent of the primary, which takes writes until it hears of it."""
    replica = group.replica(group.primary(rng), rng)
    with course.lose():
        words = ["CLUSTER", "FAILOVER", rng.choice(["FORCE", "TAKEOVER"])]
        group.order(replica, words, lambda: replica.role() == "master", lambda: f"{replica} does not take over")
        group.settle()


def survive(group, rng, course):
    """The old primary goes on for a while, and all that it takes in this time is lost."""
    primary = group.primary(rng)
    with course.lose():
        primary.run("EMULATOR", "FAILOVER", "WRITABLE")
        course.pause(rng.randint(1, 4))
        group.advance(DOWN_AFTER_MS)
        course.pause(1)
        if group.kind == "plain":
            after = next(server for server in group.servers if server.role() == "master" and server is not primary)
            primary.run("REPLICAOF", after.host, after.port)
        group.heal()


def part(group, rng, course):
    """A primary of a cluster is parted from all others, and its replica takes over."""
    primary = group.primary(rng)
    replica = group.replica(primary, rng)
    with course.lose():
        primary.run("EMULATOR", "PARTITION", "ALL")
        replica.run("CLUSTER", "FAILOVER", "FORCE")
        course.pause(rng.randint(1, 4))
        group.heal()


def move_slot(group, rng, course):
    """A slot of a client moves, first one key and then the rest."""
    tag = tag_of(rng.choice(course.clients))
    slot = group.servers[0].run("CLUSTER", "KEYSLOT", tag)
    ranges = group.servers[0].run("CLUSTER", "SLOTS")
    owned = next(primary for first, last, primary, *_ in ranges if first <= slot <= last)
    source = next(server for server in group.servers if server.port == owned[1])
    target = group.primary(rng)
    if target is source:
        return
    order = ["EMULATOR", "MOVE-SLOT", slot, target.host, target.port]
    source.run(*order, "KEYS", tag + "a")
    course.pause(1)
    source.run(*order)


def plan(group, rng, course):
    """The Sentinels replace a primary that is up."""
    primary = group.primary(rng)
    sentinel = rng.choice(group.sentinels)
    with course.lose():
        sentinel.run("SENTINEL", "FAILOVER", NAME)
        course.pause(rng.randint(0, 4))
        group.wait_for(lambda: primary.role() == "slave", lambda: f"{primary} is not replaced")
        group.settle()


def isolate(group, rng, course):
    """The Sentinels lose a primary, which clients still reach."""
    with course.lose():
        group.primary(rng).run("EMULATOR", "PARTITION", "ALL")
        group.advance(DOWN_AFTER_MS)
        course.pause(rng.randint(1, 4))
        group.heal()


def replace(group, rng, course):
    """An administrator makes a replica the primary, and then the others replicas of it."""
    primary = group.primary(rng)
    replica = group.replica(primary, rng)
    with course.lose():
        replica.run("REPLICAOF", "NO", "ONE")
        course.pause(rng.randint(0, 4))
        for server in group.servers:
            if server is not replica:
                server.run("REPLICAOF", replica.host, replica.port)
        group.settle()


def tag_of(client):
    """What the names of all keys of a client begin with."""
    return f"{{{client}}}"


# By the kind of group, and whether it is real.
WAYS = {
    ("cluster", False): [crash, lag, survive, hand_over, hand_over_late, seize, part],
    ("cluster", True): [hand_over, seize],
    ("sentinels", False): [crash, lag, survive, plan, isolate],
    ("sentinels", True): [plan],
    ("plain", False): [crash, lag, survive, hand_over, hand_over_late, replace],
    ("plain", True): [hand_over, replace],
}
