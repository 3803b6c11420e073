//! Every parameter of Redis 7.0.15, with the values that it takes and its default.
//!
//! The defaults are Redis's, with two exceptions:
//!
//! - Nothing is kept on disk, so `save`, `pidfile` and `logfile` are empty and `dir` is `/`.
//! - `DEBUG` is for tests, so inside the process `enable-debug-command` is `yes`. `lockstep serve`
//!   starts with `no`.

use super::kind::{self, ParameterKind};
use super::parameter::Parameter;

const INT_MAX: i128 = i32::MAX as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;

/// All parameters, sorted by name.
pub const PARAMETERS: &[Parameter] = &[
    one_of("acl-pubsub-default", "resetchannels", &["allchannels", "resetchannels"]),
    text("aclfile", "").immutable(),
    integer("acllog-max-len", "128", 0, LONG_MAX),
    integer("active-defrag-cycle-max", "25", 1, 99),
    integer("active-defrag-cycle-min", "1", 1, 99),
    memory("active-defrag-ignore-bytes", "104857600", 1, LONG_MAX),
    integer("active-defrag-max-scan-fields", "1000", 1, LONG_MAX),
    integer("active-defrag-threshold-lower", "10", 0, 1000),
    integer("active-defrag-threshold-upper", "100", 0, 1000),
    integer("active-expire-effort", "1", 1, 10),
    special("activedefrag", "no", kind::no_defragmentation),
    yes_no("activerehashing", "yes"),
    text("always-show-logo", "no").immutable(),
    yes_no("aof-disable-auto-gc", "no"),
    yes_no("aof-load-truncated", "yes"),
    yes_no("aof-rewrite-incremental-fsync", "yes"),
    yes_no("aof-timestamp-enabled", "no"),
    yes_no("aof-use-rdb-preamble", "yes"),
    text("aof_rewrite_cpulist", "").immutable(),
    text("appenddirname", "appendonlydir").immutable(),
    text("appendfilename", "appendonly.aof").immutable(),
    one_of("appendfsync", "everysec", &["everysec", "always", "no"]),
    yes_no("appendonly", "no"),
    memory("auto-aof-rewrite-min-size", "67108864", 0, LONG_MAX),
    integer("auto-aof-rewrite-percentage", "100", 0, INT_MAX),
    text("bgsave_cpulist", "").immutable(),
    text("bind", "* -::*"),
    text("bind-source-addr", ""),
    text("bio_cpulist", "").immutable(),
    integer("busy-reply-threshold", "5000", 0, LONG_MAX).alias("lua-time-limit"),
    special(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        kind::buffer_limits,
    ),
    memory("client-query-buffer-limit", "1073741824", 1048576, LONG_MAX),
    yes_no("cluster-allow-pubsubshard-when-down", "yes"),
    yes_no("cluster-allow-reads-when-down", "no"),
    yes_no("cluster-allow-replica-migration", "yes"),
    integer("cluster-announce-bus-port", "0", 0, 65535),
    special("cluster-announce-hostname", "", kind::hostname),
    text("cluster-announce-ip", ""),
    integer("cluster-announce-port", "0", 0, 65535),
    integer("cluster-announce-tls-port", "0", 0, 65535),
    text("cluster-config-file", "nodes.conf").immutable(),
    text("cluster-enabled", "no").immutable(),
    memory("cluster-link-sendbuf-limit", "0", 0, ULONG_MAX),
    integer("cluster-migration-barrier", "1", 0, INT_MAX),
    integer("cluster-node-timeout", "15000", 0, LONG_MAX),
    text("cluster-port", "0").immutable(),
    one_of("cluster-preferred-endpoint-type", "ip", &["ip", "hostname", "unknown-endpoint"]),
    yes_no("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"),
    integer("cluster-replica-validity-factor", "10", 0, INT_MAX).alias("cluster-slave-validity-factor"),
    yes_no("cluster-require-full-coverage", "yes"),
    yes_no("crash-log-enabled", "yes"),
    yes_no("crash-memcheck-enabled", "yes"),
    text("daemonize", "no").immutable(),
    integer("databases", "16", 1, INT_MAX).immutable(),
    text("dbfilename", "dump.rdb").protected(),
    text("dir", "/").protected(),
    text("disable-thp", "yes").immutable(),
    yes_no("dynamic-hz", "yes"),
    one_of("enable-debug-command", "yes", &["no", "yes", "local"]).immutable(),
    text("enable-module-command", "no").immutable(),
    text("enable-protected-configs", "no").immutable(),
    integer("hash-max-listpack-entries", "512", 0, LONG_MAX).alias("hash-max-ziplist-entries"),
    memory("hash-max-listpack-value", "64", 0, LONG_MAX).alias("hash-max-ziplist-value"),
    memory("hll-sparse-max-bytes", "3000", 0, LONG_MAX),
    special("hz", "10", kind::frequency),
    text("ignore-warnings", ""),
    integer("io-threads", "1", 1, INT_MAX).immutable(),
    text("io-threads-do-reads", "no").immutable(),
    yes_no("jemalloc-bg-thread", "yes"),
    integer("latency-monitor-threshold", "0", 0, LONG_MAX),
    yes_no("latency-tracking", "yes"),
    special("latency-tracking-info-percentiles", "50 99 99.9", kind::percentiles),
    yes_no("lazyfree-lazy-eviction", "no"),
    yes_no("lazyfree-lazy-expire", "no"),
    yes_no("lazyfree-lazy-server-del", "no"),
    yes_no("lazyfree-lazy-user-del", "no"),
    yes_no("lazyfree-lazy-user-flush", "no"),
    integer("lfu-decay-time", "1", 0, INT_MAX),
    integer("lfu-log-factor", "10", 0, INT_MAX),
    integer("list-compress-depth", "0", 0, INT_MAX),
    integer("list-max-listpack-size", "-2", -INT_MAX - 1, INT_MAX).alias("list-max-ziplist-size"),
    text("logfile", "").immutable(),
    one_of("loglevel", "notice", &["debug", "verbose", "notice", "warning"]),
    text("masterauth", "").secret(),
    text("masteruser", "").secret(),
    integer("maxclients", "10000", 1, UINT_MAX),
    memory("maxmemory", "0", 0, ULONG_MAX),
    memory_or_percent("maxmemory-clients", "0"),
    integer("maxmemory-eviction-tenacity", "10", 0, 100),
    one_of(
        "maxmemory-policy",
        "noeviction",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
    ),
    integer("maxmemory-samples", "5", 1, INT_MAX),
    integer("min-replicas-max-lag", "10", 0, INT_MAX).alias("min-slaves-max-lag"),
    integer("min-replicas-to-write", "0", 0, INT_MAX).alias("min-slaves-to-write"),
    yes_no("no-appendfsync-on-rewrite", "no"),
    Parameter::new("notify-keyspace-events", "", ParameterKind::Events),
    one_of("oom-score-adj", "no", &["no", "yes", "relative", "absolute"]),
    special("oom-score-adj-values", "0 200 800", kind::oom_scores),
    text("pidfile", "").immutable(),
    integer("port", "6379", 0, 65535),
    special("proc-title-template", "{title} {listen-addr} {server-mode}", kind::title_template),
    one_of("propagation-error-behavior", "ignore", &["ignore", "panic", "panic-on-replicas"]),
    yes_no("protected-mode", "yes"),
    memory("proto-max-bulk-len", "536870912", 1048576, LONG_MAX),
    yes_no("rdb-del-sync-files", "no"),
    yes_no("rdb-save-incremental-fsync", "yes"),
    text("rdbchecksum", "yes").immutable(),
    yes_no("rdbcompression", "yes"),
    memory("repl-backlog-size", "1048576", 1, LONG_MAX),
    integer("repl-backlog-ttl", "3600", 0, LONG_MAX),
    yes_no("repl-disable-tcp-nodelay", "no"),
    one_of("repl-diskless-load", "disabled", &["disabled", "on-empty-db", "swapdb"]),
    yes_no("repl-diskless-sync", "yes"),
    integer("repl-diskless-sync-delay", "5", 0, INT_MAX),
    integer("repl-diskless-sync-max-replicas", "0", 0, INT_MAX),
    integer("repl-ping-replica-period", "10", 1, INT_MAX).alias("repl-ping-slave-period"),
    integer("repl-timeout", "60", 1, INT_MAX),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    integer("replica-announce-port", "0", 0, 65535).alias("slave-announce-port"),
    yes_no("replica-announced", "yes"),
    yes_no("replica-ignore-disk-write-errors", "no"),
    yes_no("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    yes_no("replica-lazy-flush", "no").alias("slave-lazy-flush"),
    integer("replica-priority", "100", 0, INT_MAX).alias("slave-priority"),
    yes_no("replica-read-only", "yes").alias("slave-read-only"),
    yes_no("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    text("replicaof", "").immutable().alias("slaveof"),
    text("requirepass", "").secret(),
    one_of("sanitize-dump-payload", "no", &["no", "yes", "clients"]),
    special("save", "", kind::save_points),
    text("server_cpulist", "").immutable(),
    integer("set-max-intset-entries", "512", 0, LONG_MAX),
    text("set-proc-title", "yes").immutable(),
    flags("shutdown-on-sigint", "default", &["default", "save", "nosave", "now", "force"]),
    flags("shutdown-on-sigterm", "default", &["default", "save", "nosave", "now", "force"]),
    integer("shutdown-timeout", "10", 0, INT_MAX),
    integer("slowlog-log-slower-than", "10000", -1, LONG_MAX),
    integer("slowlog-max-len", "128", 0, LONG_MAX),
    text("socket-mark-id", "0").immutable(),
    yes_no("stop-writes-on-bgsave-error", "yes"),
    memory("stream-node-max-bytes", "4096", 0, LONG_MAX),
    integer("stream-node-max-entries", "100", 0, LONG_MAX),
    text("supervised", "no").immutable(),
    text("syslog-enabled", "no").immutable(),
    text("syslog-facility", "local0").immutable(),
    text("syslog-ident", "redis").immutable(),
    integer("tcp-backlog", "511", 1, INT_MAX).immutable(),
    integer("tcp-keepalive", "300", 0, INT_MAX),
    integer("timeout", "0", 0, INT_MAX),
    one_of("tls-auth-clients", "yes", &["no", "yes", "optional"]),
    text("tls-ca-cert-dir", ""),
    text("tls-ca-cert-file", ""),
    text("tls-cert-file", ""),
    text("tls-ciphers", ""),
    text("tls-ciphersuites", ""),
    text("tls-client-cert-file", ""),
    text("tls-client-key-file", ""),
    text("tls-client-key-file-pass", "").secret(),
    yes_no("tls-cluster", "no"),
    text("tls-dh-params-file", ""),
    text("tls-key-file", ""),
    text("tls-key-file-pass", "").secret(),
    special("tls-port", "0", kind::no_tls),
    yes_no("tls-prefer-server-ciphers", "no"),
    text("tls-protocols", ""),
    yes_no("tls-replication", "no"),
    integer("tls-session-cache-size", "20480", 0, INT_MAX),
    integer("tls-session-cache-timeout", "300", 0, INT_MAX),
    yes_no("tls-session-caching", "yes"),
    integer("tracking-table-max-keys", "1000000", 0, LONG_MAX),
    text("unixsocket", "").immutable(),
    text("unixsocketperm", "0").immutable(),
    integer("zset-max-listpack-entries", "128", 0, LONG_MAX).alias("zset-max-ziplist-entries"),
    memory("zset-max-listpack-value", "64", 0, LONG_MAX).alias("zset-max-ziplist-value"),
];

const fn text(name: &'static str, default: &'static str) -> Parameter {
    Parameter::new(name, default, ParameterKind::Text)
}

const fn yes_no(name: &'static str, default: &'static str) -> Parameter {
    Parameter::new(name, default, ParameterKind::YesNo)
}

const fn integer(name: &'static str, default: &'static str, min: i128, max: i128) -> Parameter {
    Parameter::new(name, default, ParameterKind::Integer { min, max })
}

const fn memory(name: &'static str, default: &'static str, min: i128, max: i128) -> Parameter {
    Parameter::new(name, default, ParameterKind::Memory { min, max })
}

const fn memory_or_percent(name: &'static str, default: &'static str) -> Parameter {
    Parameter::new(name, default, ParameterKind::MemoryOrPercent)
}

const fn one_of(name: &'static str, default: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter::new(name, default, ParameterKind::OneOf(words))
}

const fn flags(name: &'static str, default: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter::new(name, default, ParameterKind::Flags(words))
}

const fn special(name: &'static str, default: &'static str, check: kind::Check) -> Parameter {
    Parameter::new(name, default, ParameterKind::Special(check))
}
