"""The clients: of redis-py with and without asyncio, and of ioredis.

Each has a cluster, asks Sentinels, or asks plain servers which one is the primary.
"""

import asyncio
import json
import os
import subprocess
from inspect import isawaitable

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.cluster
import redis.retry
import redis.sentinel
from redis import exceptions
from redis.backoff import ConstantBackoff

from ledger import INCREMENT_BOTH, Failure

# The clients give up later than the test does, which so notices all that hang.
REPLY_MAX_S = 600
RETRIES = 3
RETRY_WAIT_S = 0.01
# The codes of errors, which redis-py turns into classes. A class stands behind those that inherit from it.
CODES = {
    exceptions.MovedError: "MOVED",
    exceptions.AskError: "ASK",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ExecAbortError: "EXECABORT",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.ClusterError: "no server",
    exceptions.RedisClusterException: "no server",
    exceptions.ConnectionError: "no server",
}


class RedisPy:
    """A client of redis-py. The module is redis, or redis.asyncio."""

    def __init__(self, kind, addresses, module):
        self._kind = kind
        self._addresses = addresses
        self._module = module
        self._loop = asyncio.new_event_loop()
        # In a cluster, redis-py 8.1.0 begins a transaction in an event loop of its own. It closes that loop and goes on
        # to use connections that were opened there: "Event loop is closed".
        self._has_transactions = kind != "cluster" or module is redis
        retry = module.retry.Retry(ConstantBackoff(RETRY_WAIT_S), RETRIES)
        timeouts = {"socket_timeout": REPLY_MAX_S, "socket_connect_timeout": REPLY_MAX_S}
        self._options = {"decode_responses": True, "retry": retry, **timeouts}
        self._client = None

    def ask(self, commands):
        """Sends one command, or a transaction of several."""
        try:
            self._client = self._client or self._open()
            if len(commands) > 1 and not self._has_transactions:
                commands = [["EVAL", INCREMENT_BOTH, len(commands), *(key for _, key in commands)]]
            if len(commands) == 1:
                return self._wait(self._client.execute_command(*commands[0]))
            pipeline = self._client.pipeline(transaction=True)
            for command in commands:
                pipeline.execute_command(*command)
            return self._wait(pipeline.execute())
        except (exceptions.RedisError, exceptions.RedisClusterException) as error:
            if self._kind == "plain":
                self.close()
            return failure(error)

    def close(self):
        if self._client:
            self._end(self._client)
            self._client = None

    def _end(self, client):
        self._wait(client.aclose() if self._module is redis.asyncio else client.close())

    def _wait(self, result):
        async def outcome():
            return await result

        return self._loop.run_until_complete(outcome()) if isawaitable(result) else result

    def _open(self):
        if self._kind == "cluster":
            nodes = [self._module.cluster.ClusterNode(*address) for address in self._addresses]
            return self._module.cluster.RedisCluster(startup_nodes=nodes, **self._options)
        if self._kind == "sentinels":
            return self._module.sentinel.Sentinel(self._addresses, **self._options).master_for("mymaster")
        for host, port in self._addresses:
            client = self._module.Redis(host=host, port=port, **self._options)
            if self._wait(client.execute_command("ROLE"))[0] == "master":
                return client
            self._end(client)
        raise exceptions.ConnectionError("no server is the primary")


def failure(error):
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return Failure(code, repr(error))
    code = str(error).split(" ")[0] if type(error) is exceptions.ResponseError else type(error).__name__
    return Failure(code, repr(error))


class Ioredis:
    """A client of ioredis, in a process of its own."""

    def __init__(self, kind, addresses):
        words = [f"{host}:{port}" for host, port in addresses]
        self._process = subprocess.Popen(
            ["node", os.environ["IOREDIS_LINKS"], kind, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, commands):
        print(json.dumps(commands), file=self._process.stdin, flush=True)
        said = json.loads(self._process.stdout.readline())
        return Failure(said["code"], said["text"]) if "code" in said else said["value"]

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def open_all(kind, addresses):
    """A client of each kind, by its name."""
    return {
        "redis-py": RedisPy(kind, addresses, redis),
        "asyncio": RedisPy(kind, addresses, redis.asyncio),
        "ioredis": Ioredis(kind, addresses),
    }
