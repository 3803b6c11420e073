"""Random failovers under clients of redis-py and ioredis. No client hangs, and none gets a reply that a real server
could not give.

ledger judges replies: it knows what a client has written, and when that may be lost. course is what clients and
failovers know of each other. links has the clients, group the servers and what happens to them, and real starts
servers of Redis.

The argument is cluster, sentinels or plain: what REDIS_URL and REDIS_SENTINELS name. A second argument, real, starts
servers of Redis instead. IOREDIS_LINKS names the file links.mjs beside its packages.

LOCKSTEP_FAILOVERS is the number of failovers, and LOCKSTEP_SEED the first seed. Without a number, the three kinds
together have some 50 failovers, or 1,000 with LOCKSTEP_THOROUGH=1. A seed fixes what happens to the servers, and what
each client sends. The machine decides how both interleave.
"""

import os
import random
import sys
import threading
import time

import links
import real
from course import Course, Wrong
from group import Group, lag, tag_of
from ledger import Failure, Ledger

# The failovers of one group of servers.
FAILOVERS_PER_SEED = 25


def play(group, seed, failovers, counts_losses=True, ways=None):
    """Lets the servers fail over, one time after the other, while the clients send requests."""
    clients = links.open_all(group.kind, group.addresses())
    course = Course(list(clients), counts_losses)
    rng = random.Random(seed)
    threads = [
        threading.Thread(target=serve, args=(name, client, random.Random(rng.getrandbits(64)), course), daemon=True)
        for name, client in clients.items()
    ]
    for thread in threads:
        thread.start()
    try:
        course.demand(1)
        for _ in range(failovers):
            group.fail_over(rng, course, ways)
            course.pause(rng.randint(1, 3))
    finally:
        course.end()
    for thread in threads:
        thread.join()
    course.check()
    return course.summary()


def serve(name, client, rng, course):
    """Sends random requests of one client, until the course is over or a reply is wrong."""
    ledger = Ledger(tag_of(name))
    while course.goes_on():
        commands, see = ledger.next(rng)
        began = course.losses
        try:
            reply = client.ask(commands)
        except Exception as error:
            reply = Failure(type(error).__name__, repr(error))
        report = ledger.judge(see, reply, began, course.losses)
        error = reply if isinstance(reply, Failure) else None
        course.served(name, error, report and f"{name}, {commands}: {report}")
    client.close()


def check_judge(group, seed):
    """Losses that no one announces must be noticed: otherwise, a pass says nothing."""
    try:
        play(group, seed, FAILOVERS_PER_SEED, counts_losses=False, ways=[lag])
    except Wrong as report:
        if "was acknowledged" in str(report):
            return
        raise
    raise Wrong("writes were lost, and no one noticed")


def main(kind, is_real=None):
    share = 334 if os.environ.get("LOCKSTEP_THOROUGH") else 17
    failovers = int(os.environ.get("LOCKSTEP_FAILOVERS", share))
    seed = int(os.environ.get("LOCKSTEP_SEED", 0))
    print(f"LOCKSTEP_SEED={seed} LOCKSTEP_FAILOVERS={failovers} {kind}", flush=True)

    def servers():
        if is_real:
            return real.start(kind)
        return Group.of_emulator(kind, os.environ["REDIS_URL"], os.environ.get("REDIS_SENTINELS", "").split())

    began = time.monotonic()
    try:
        for nth, first in enumerate(range(0, failovers, FAILOVERS_PER_SEED)):
            print(play(servers(), seed + nth, min(FAILOVERS_PER_SEED, failovers - first)), flush=True)
        if not is_real:
            check_judge(servers(), seed)
    except Wrong as report:
        print(f"LOCKSTEP_SEED={seed} LOCKSTEP_FAILOVERS={failovers} {kind}: {report}", flush=True)
        # A client that hangs must not keep the process.
        os._exit(1)
    finally:
        real.stop()
    print(f"{failovers} failovers, {kind}: ok, {time.monotonic() - began:.1f} s")


main(*sys.argv[1:])
