"""Servers of Redis, which judge the model itself: it must find nothing wrong with them."""

import socket
import subprocess
import tempfile
import time

import redis

from course import Wrong
from group import NAME, Group, Server

HOST = "127.0.0.1"
REPLICAS = 2
SENTINELS = 3
PRIMARIES = 3
# Only servers that hang need as long to begin.
START_MAX_S = 60
# Ports of each kind, which may run at the same time. Those of cluster buses are 10,000 above.
PORTS = {"cluster": range(11_000, 14_000), "sentinels": range(14_000, 17_000), "plain": range(17_000, 20_000)}

# A shell that runs its arguments in a folder. It ends them and removes the folder when its input closes, which happens
# whenever this process ends.
UNTIL_INPUT_ENDS = """
trap : INT TERM
folder=$1
shift
"$@" &
exec >/dev/null
cat
kill -9 $!
wait
rm -r "$folder"
"""

_lifelines = []


def start(kind):
    """A group of this kind, on ports that are free."""
    stop()
    count = 2 * PRIMARIES if kind == "cluster" else 1 + REPLICAS
    ports = iter(PORTS[kind])
    servers = [_start(ports, _options(kind)) for _ in range(count)]
    for server in servers:
        _wait_for(server.role)
    group = Group(kind, servers, is_real=True)
    if kind == "cluster":
        addresses = [f"{server.host}:{server.port}" for server in servers]
        order = ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"]
        subprocess.run(order, check=True, stdout=subprocess.DEVNULL, timeout=START_MAX_S)
    else:
        for replica in servers[1:]:
            replica.run("REPLICAOF", HOST, servers[0].port)
    # The servers of a cluster hear of each other one after the other.
    group.settle()
    if kind == "sentinels":
        group.sentinels = [_start_sentinel(ports, servers[0]) for _ in range(SENTINELS)]
        _wait_for(lambda: all(_knows_all(sentinel) for sentinel in group.sentinels))
    return group


def stop():
    """Ends the servers, and removes what they have written."""
    for lifeline in _lifelines:
        lifeline.stdin.close()
        lifeline.wait()
    _lifelines.clear()


def _options(kind):
    # A copy of the data that begins at once, as in the emulator.
    options = ["--save", "", "--repl-diskless-sync-delay", "0"]
    return [*options, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"] if kind == "cluster" else options


def _start_sentinel(ports, primary):
    settings = {"down-after-milliseconds": 30_000, "failover-timeout": 10_000}
    lines = [f"sentinel monitor {NAME} {HOST} {primary.port} 2"]
    lines += [f"sentinel {setting} {NAME} {value}" for setting, value in settings.items()]
    sentinel = _start(ports, ["--sentinel"], lines)
    _wait_for(sentinel.role)
    return sentinel


def _knows_all(sentinel):
    known = (len(sentinel.run("SENTINEL", command, NAME)) for command in ("SENTINELS", "REPLICAS"))
    return list(known) == [SENTINELS - 1, REPLICAS]


def _start(ports, options, lines=()):
    folder = tempfile.mkdtemp(prefix="lockstep-failovers-")
    port = _free_port(ports)
    with open(f"{folder}/redis.conf", "w") as settings:
        settings.write("\n".join([f"port {port}", f"bind {HOST}", f"dir {folder}", *lines, ""]))
    command = ["sh", "-c", UNTIL_INPUT_ENDS, "sh", folder, "redis-server", f"{folder}/redis.conf", *options]
    _lifelines.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
    return Server(HOST, port)


def _free_port(ports):
    for port in ports:
        with socket.socket() as own, socket.socket() as bus:
            try:
                own.bind((HOST, port))
                bus.bind((HOST, port + 10_000))
            except OSError:
                continue
            return port
    raise Wrong("no port is free")


def _wait_for(is_done):
    end = time.monotonic() + START_MAX_S
    while time.monotonic() < end:
        try:
            if is_done():
                return
        except redis.RedisError:
            pass
        time.sleep(0.05)
    raise Wrong("a server of Redis does not start")
