"""What redis-py's RedisCluster does with a cluster of the emulator: MOVED, ASK and a failover.

REDIS_URL names the first of three primaries with a replica each, which allow control.
"""

import os

import redis
from redis.cluster import RedisCluster

URL = os.environ["REDIS_URL"]


def on(node, *words):
    """Runs a command at one server, whatever its keys."""
    client = redis.Redis(host=node.host, port=node.port, decode_responses=True)
    with client:
        return client.execute_command(*words)


def slot_of(cluster, key):
    return cluster.keyslot(key), cluster.get_node_from_key(key)


def other_primary(cluster, node):
    return next(other for other in cluster.get_primaries() if other.name != node.name)


def finds_all_servers(cluster):
    assert len(cluster.get_primaries()) == 3 and len(cluster.get_replicas()) == 3
    for nth in range(30):
        assert cluster.set(f"key:{nth}", nth)
    assert cluster.mget_nonatomic([f"key:{nth}" for nth in range(30)]) == [str(nth) for nth in range(30)]
    assert cluster.dbsize(target_nodes=RedisCluster.PRIMARIES) == 30


def follows_moved(cluster):
    cluster.set("b", "here")
    slot, source = slot_of(cluster, "b")
    target = other_primary(cluster, source)
    on(source, "EMULATOR", "MOVE-SLOT", slot, target.host, target.port)
    assert cluster.get("b") == "here"
    assert cluster.get_node_from_key("b").port == target.port


def follows_ask(cluster):
    cluster.mset({"{b}1": "x", "{b}2": "y"})
    slot, source = slot_of(cluster, "b")
    target = other_primary(cluster, source)
    on(source, "EMULATOR", "MOVE-SLOT", slot, target.host, target.port, "KEYS", "{b}1")
    assert [cluster.get("{b}1"), cluster.get("{b}2")] == ["x", "y"]
    assert cluster.set("{b}new", "z")
    assert on(source, "EXISTS", "{b}2") == 1, "the other key is still there"
    on(source, "EMULATOR", "MOVE-SLOT", slot, target.host, target.port)
    assert cluster.mget("{b}1", "{b}2", "{b}new") == ["x", "y", "z"]


def follows_a_failover(cluster):
    cluster.set("b", "before")
    source = cluster.get_node_from_key("b")
    on(source, "EMULATOR", "FAILOVER")
    assert cluster.get("b") == "before"
    assert cluster.set("b", "after")
    assert cluster.get_node_from_key("b").port != source.port


def follows_an_agreed_failover(cluster):
    cluster.set("b", "before")
    source = cluster.get_node_from_key("b")
    slot = cluster.keyslot("b")
    replica = next(node for node in cluster.nodes_manager.slots_cache[slot] if node.server_type == "replica")
    on(replica, "CLUSTER", "FAILOVER")
    assert cluster.set("b", "after") and cluster.get("b") == "after"
    assert cluster.get_node_from_key("b").port == replica.port != source.port


def uses_one_slot_per_request(cluster):
    pipe = cluster.pipeline()
    for nth in range(10):
        pipe.set(f"key:{nth}", nth)
    assert pipe.execute() == [True] * 10
    try:
        cluster.mget("b", "c")
    except redis.exceptions.RedisClusterException:
        pass
    else:
        raise AssertionError("two slots")
    assert cluster.eval("return redis.call('set', KEYS[1], ARGV[1])", 1, "b", "v") == "OK"


def hears_shard_channels(cluster):
    channel = "b"
    heard = cluster.pubsub()
    heard.ssubscribe(channel)
    assert heard.get_sharded_message(timeout=10)["type"] == "ssubscribe"
    assert cluster.spublish(channel, "m") == 1
    assert heard.get_sharded_message(timeout=10)["data"] == "m"
    heard.close()


TESTS = [
    finds_all_servers,
    follows_moved,
    follows_ask,
    follows_a_failover,
    follows_an_agreed_failover,
    uses_one_slot_per_request,
    hears_shard_channels,
]

for protocol in (2, 3):
    for test in TESTS:
        first = redis.Redis.from_url(URL)
        first.execute_command("EMULATOR", "RESET")
        with RedisCluster.from_url(URL, protocol=protocol, decode_responses=True) as cluster:
            test(cluster)
        first.close()
print(f"redis-py {redis.__version__} RedisCluster: {len(TESTS)} tests pass, on RESP2 and RESP3")
