//! `INFO`: the state of the server.
//!
//! Each section is a function that writes its lines, in Redis's order. Values that do not exist
//! here, such as files, are 0 as in a Redis that has just begun.

use std::fmt::{self, Write as _};

use super::super::{Argv, Ctx, Outcome, is_word};
use crate::config::Id;
use crate::engine::Engine;
use crate::reply::Reply;
use crate::topic::Topic;

/// The emulated version of Redis.
pub(super) const VERSION: &str = "7.0.15";

/// A section: its name, whether `INFO` shows it without arguments, and the function that writes its
/// lines.
struct Section(&'static str, Shown, fn(&mut Ctx<'_>, &mut String) -> fmt::Result);

#[derive(PartialEq, Eq)]
enum Shown {
    Always,
    IfAsked,
}

const SECTIONS: &[Section] = &[
    Section("Server", Shown::Always, server),
    Section("Clients", Shown::Always, clients),
    Section("Memory", Shown::Always, memory),
    Section("Persistence", Shown::Always, persistence),
    Section("Stats", Shown::Always, stats),
    Section("Replication", Shown::Always, replication),
    Section("CPU", Shown::Always, cpu),
    Section("Modules", Shown::Always, |_, _| Ok(())),
    Section("Commandstats", Shown::IfAsked, commandstats),
    Section("Errorstats", Shown::Always, errorstats),
    Section("Latencystats", Shown::IfAsked, latencystats),
    Section("Cluster", Shown::Always, |ctx, text| {
        let is_enabled = u8::from(ctx.engine.cluster.is_some());
        write!(text, "cluster_enabled:{is_enabled}\r\n")
    }),
    Section("Keyspace", Shown::Always, keyspace),
    Section("Sentinel", Shown::Always, sentinel),
];

/// The sections of a Sentinel. No other server has the last one.
const OF_SENTINELS: &[&str] = &["Server", "Clients", "Stats", "CPU", "Sentinel"];

/// `INFO [section [section ...]]`
pub(super) fn info(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let asked = |word: &str| argv[1..].iter().any(|arg| is_word(arg, word));
    let is_default = argv.len() == 1 || asked("default");
    let is_all = asked("all") || asked("everything");
    let mut text = String::new();
    ctx.engine.keyspace.expire_rest();
    let is_sentinel = ctx.engine.sentinel.is_some();
    for Section(name, shown, lines) in SECTIONS {
        let is_there = if is_sentinel { OF_SENTINELS.contains(name) } else { *name != "Sentinel" };
        if !is_there {
            continue;
        }
        if is_all || is_default && *shown == Shown::Always || asked(name) {
            text += if text.is_empty() { "" } else { "\r\n" };
            // Writing to a `String` cannot fail.
            _ = write!(text, "# {name}\r\n").and_then(|()| lines(ctx, &mut text));
        }
    }
    Ok(Reply::Verbatim(*b"txt", text.into()))
}

fn lines(text: &mut String, fields: &[(&str, &dyn fmt::Display)]) -> fmt::Result {
    fields.iter().try_for_each(|(name, value)| write!(text, "{name}:{value}\r\n"))
}

/// Writes fields that are 0.
fn zeros(text: &mut String, names: &str) -> fmt::Result {
    names.split_whitespace().try_for_each(|name| write!(text, "{name}:0\r\n"))
}

/// Formats a number of bytes for people: `1.50K`.
fn human(bytes: usize) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes}B") } else { format!("{value:.2}{}", UNITS[unit]) }
}

fn server(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const HZ: Id = Id::of("hz");
    const PORT: Id = Id::of("port");
    let now = ctx.engine.keyspace.now();
    let uptime = now.since(ctx.engine.stats.began).as_secs();
    let config = &ctx.engine.config;
    lines(
        text,
        &[
            ("redis_version", &VERSION),
            ("redis_git_sha1", &"00000000"),
            ("redis_git_dirty", &0),
            ("redis_build_id", &"0000000000000000"),
            ("redis_mode", &ctx.engine.mode()),
            ("os", &format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
            ("arch_bits", &usize::BITS),
            ("monotonic_clock", &"emulated"),
            ("multiplexing_api", &"tokio"),
            ("atomicvar_api", &"std"),
            ("gcc_version", &"0.0.0"),
            ("process_id", &std::process::id()),
            ("process_supervised", &"no"),
            ("run_id", &ctx.engine.identity("run")),
            ("tcp_port", &config.number(PORT)),
            ("server_time_usec", &now.micros()),
            ("uptime_in_seconds", &uptime),
            ("uptime_in_days", &(uptime / (24 * 60 * 60))),
            ("hz", &config.number(HZ)),
            ("configured_hz", &config.number(HZ)),
            ("lru_clock", &((now.millis() / 1000) & 0xff_ffff)),
            ("executable", &""),
            ("config_file", &""),
            ("io_threads_active", &0),
        ],
    )
}

fn clients(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const MAXCLIENTS: Id = Id::of("maxclients");
    let others = ctx.engine.clients.others();
    let tracking = others.iter().filter(|client| client.tracking.is_some()).count();
    lines(
        text,
        &[
            ("connected_clients", &ctx.engine.clients.len()),
            ("cluster_connections", &0),
            ("maxclients", &ctx.engine.config.number(MAXCLIENTS)),
            ("client_recent_max_input_buffer", &0),
            ("client_recent_max_output_buffer", &0),
            ("blocked_clients", &ctx.engine.waiting.blocked_clients()),
            ("tracking_clients", &(tracking + usize::from(ctx.client.tracking.is_some()))),
            ("clients_in_timeout_table", &0),
        ],
    )
}

fn memory(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const MAXMEMORY: Id = Id::of("maxmemory");
    const MAXMEMORY_POLICY: Id = Id::of("maxmemory-policy");
    let (bytes, data_bytes) = ctx.engine.memory();
    let used = human(bytes);
    let (scripts, functions) = ctx.engine.peek_programs();
    let scripts_bytes = scripts.source_bytes();
    let all_scripts_bytes = ctx.engine.scripts_memory();
    let libraries = functions.libraries();
    let functions: usize = libraries.values().map(|library| library.functions.len()).sum();
    let maxmemory = ctx.engine.config.number(MAXMEMORY);
    lines(
        text,
        &[
            ("used_memory", &bytes),
            ("used_memory_human", &used),
            ("used_memory_rss", &bytes),
            ("used_memory_rss_human", &used),
            ("used_memory_peak", &bytes),
            ("used_memory_peak_human", &used),
            ("used_memory_peak_perc", &"100.00%"),
            ("used_memory_overhead", &(bytes - data_bytes)),
            ("used_memory_startup", &size_of::<Engine>()),
            ("used_memory_dataset", &data_bytes),
            ("used_memory_dataset_perc", &format_args!("{:.2}%", 100.0 * data_bytes as f64 / bytes as f64)),
            ("allocator_allocated", &bytes),
            ("allocator_active", &bytes),
            ("allocator_resident", &bytes),
            ("total_system_memory", &0),
            ("total_system_memory_human", &"0B"),
            ("used_memory_lua", &0),
            ("used_memory_vm_eval", &0),
            ("used_memory_lua_human", &"0B"),
            ("used_memory_scripts_eval", &scripts_bytes),
            ("number_of_cached_scripts", &scripts.known().len()),
            ("number_of_functions", &functions),
            ("number_of_libraries", &libraries.len()),
            ("used_memory_vm_functions", &0),
            ("used_memory_vm_total", &0),
            ("used_memory_vm_total_human", &"0B"),
            ("used_memory_functions", &(all_scripts_bytes - scripts_bytes)),
            ("used_memory_scripts", &all_scripts_bytes),
            ("used_memory_scripts_human", &human(all_scripts_bytes)),
            ("maxmemory", &maxmemory),
            ("maxmemory_human", &human(maxmemory as usize)),
            ("maxmemory_policy", &String::from_utf8_lossy(ctx.engine.config.text(MAXMEMORY_POLICY))),
            ("allocator_frag_ratio", &"1.00"),
            ("allocator_frag_bytes", &0),
            ("allocator_rss_ratio", &"1.00"),
            ("allocator_rss_bytes", &0),
            ("rss_overhead_ratio", &"1.00"),
            ("rss_overhead_bytes", &0),
            ("mem_fragmentation_ratio", &"1.00"),
        ],
    )?;
    zeros(
        text,
        "mem_fragmentation_bytes mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers \
         mem_clients_slaves mem_clients_normal mem_cluster_links mem_aof_buffer",
    )?;
    lines(text, &[("mem_allocator", &"rust")])?;
    zeros(text, "active_defrag_running lazyfree_pending_objects lazyfreed_objects")
}

fn persistence(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    zeros(text, "loading async_loading current_cow_peak current_cow_size current_cow_size_age")?;
    lines(text, &[("current_fork_perc", &"0.00")])?;
    zeros(
        text,
        "current_save_keys_processed current_save_keys_total rdb_changes_since_last_save rdb_bgsave_in_progress",
    )?;
    lines(
        text,
        &[
            ("rdb_last_save_time", &(ctx.engine.stats.began.millis() / 1000)),
            ("rdb_last_bgsave_status", &"ok"),
            ("rdb_last_bgsave_time_sec", &-1),
            ("rdb_current_bgsave_time_sec", &-1),
        ],
    )?;
    zeros(
        text,
        "rdb_saves rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled \
         aof_rewrite_in_progress aof_rewrite_scheduled",
    )?;
    lines(
        text,
        &[
            ("aof_last_rewrite_time_sec", &-1),
            ("aof_current_rewrite_time_sec", &-1),
            ("aof_last_bgrewrite_status", &"ok"),
            ("aof_rewrites", &0),
            ("aof_rewrites_consecutive_failures", &0),
            ("aof_last_write_status", &"ok"),
        ],
    )?;
    zeros(text, "aof_last_cow_size module_fork_in_progress module_fork_last_cow_size")
}

fn stats(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    let listened = Topic::ALL.map(|topic| ctx.engine.subscribers(topic).len());
    let stats = &ctx.engine.stats;
    let counts = ctx.engine.keyspace.events.counts;
    let (tracked, prefixes) = ctx.engine.tracker.counts();
    lines(
        text,
        &[("total_connections_received", &stats.connections), ("total_commands_processed", &stats.calls)],
    )?;
    lines(
        text,
        &[
            ("instantaneous_ops_per_sec", &0),
            ("total_net_input_bytes", &stats.net.input_bytes),
            ("total_net_output_bytes", &stats.net.output_bytes),
            ("total_net_repl_input_bytes", &0),
            ("total_net_repl_output_bytes", &0),
            ("instantaneous_input_kbps", &"0.00"),
            ("instantaneous_output_kbps", &"0.00"),
            ("instantaneous_input_repl_kbps", &"0.00"),
            ("instantaneous_output_repl_kbps", &"0.00"),
        ],
    )?;
    lines(text, &[("rejected_connections", &stats.rejected_connections)])?;
    zeros(text, "sync_full sync_partial_ok sync_partial_err")?;
    lines(text, &[("expired_keys", &counts.expired), ("expired_stale_perc", &"0.00")])?;
    zeros(
        text,
        "expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients \
         total_eviction_exceeded_time current_eviction_exceeded_time",
    )?;
    lines(
        text,
        &[
            ("keyspace_hits", &counts.hits),
            ("keyspace_misses", &counts.misses),
            ("pubsub_channels", &listened[Topic::Channel as usize]),
            ("pubsub_patterns", &listened[Topic::Pattern as usize]),
            ("pubsubshard_channels", &listened[Topic::ShardChannel as usize]),
        ],
    )?;
    zeros(
        text,
        "latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits \
         active_defrag_misses active_defrag_key_hits active_defrag_key_misses total_active_defrag_time \
         current_active_defrag_time",
    )?;
    lines(
        text,
        &[
            ("tracking_total_keys", &tracked),
            ("tracking_total_items", &tracked),
            ("tracking_total_prefixes", &prefixes),
            ("unexpected_error_replies", &0),
            ("total_error_replies", &stats.failures),
            ("dump_payload_sanitizations", &0),
            ("total_reads_processed", &stats.net.reads),
            ("total_writes_processed", &stats.net.writes),
        ],
    )?;
    zeros(
        text,
        "io_threaded_reads_processed io_threaded_writes_processed reply_buffer_shrinks reply_buffer_expands",
    )
}

fn replication(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const REPL_BACKLOG_SIZE: Id = Id::of("repl-backlog-size");
    const REPLICA_PRIORITY: Id = Id::of("replica-priority");
    const REPLICA_READ_ONLY: Id = Id::of("replica-read-only");
    let (engine, now) = (&ctx.engine, ctx.engine.now());
    let (config, replication) = (&engine.config, &engine.replication);
    let role = if replication.upstream.is_some() { "slave" } else { "master" };
    lines(text, &[("role", &role)])?;
    if let Some(upstream) = &replication.upstream {
        let is_up = upstream.link.is_some();
        let offset = if upstream.has_synced { replication.offset as i64 } else { 0 };
        lines(
            text,
            &[
                ("master_host", &String::from_utf8_lossy(&upstream.host)),
                ("master_port", &upstream.port),
                ("master_link_status", &if is_up { "up" } else { "down" }),
                ("master_last_io_seconds_ago", &if is_up { 0 } else { -1 }),
                ("master_sync_in_progress", &0),
                ("slave_read_repl_offset", &offset),
                ("slave_repl_offset", &offset),
            ],
        )?;
        if !is_up {
            lines(text, &[("master_link_down_since_seconds", &now.since(upstream.down_since).as_secs())])?;
        }
        lines(
            text,
            &[
                ("slave_priority", &config.number(REPLICA_PRIORITY)),
                ("slave_read_only", &u8::from(config.is_on(REPLICA_READ_ONLY))),
                ("replica_announced", &1),
            ],
        )?;
    }
    lines(text, &[("connected_slaves", &replication.followers.len())])?;
    for (nth, follower) in replication.followers.iter().enumerate() {
        let ((host, port), link) = (&follower.address, &follower.link);
        let (offset, lag) = (link.acknowledged(), link.silence().as_secs());
        write!(text, "slave{nth}:ip={host},port={port},state=online,offset={offset},lag={lag}\r\n")?;
    }
    let failover = if engine.fails_over() { "waiting-for-sync" } else { "no-failover" };
    let (previous, second_offset) = match &replication.previous {
        Some((history, offset)) => (history.clone(), *offset as i64),
        None => ("0".repeat(40), -1),
    };
    let has_stream = !replication.followers.is_empty() || replication.upstream.is_some();
    lines(
        text,
        &[
            ("master_failover_state", &failover),
            ("master_replid", &engine.history()),
            ("master_replid2", &previous),
            ("master_repl_offset", &replication.offset),
            ("second_repl_offset", &second_offset),
            ("repl_backlog_active", &u8::from(has_stream)),
            ("repl_backlog_size", &config.number(REPL_BACKLOG_SIZE)),
            ("repl_backlog_first_byte_offset", &u8::from(has_stream)),
            ("repl_backlog_histlen", &if has_stream { replication.offset } else { 0 }),
        ],
    )
}

fn cpu(_: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const NAMES: [&str; 6] =
        ["sys", "user", "sys_children", "user_children", "sys_main_thread", "user_main_thread"];
    NAMES.iter().try_for_each(|name| write!(text, "used_cpu_{name}:0.000000\r\n"))
}

fn commandstats(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    ctx.engine.stats.commands().try_for_each(|(name, calls)| {
        let (calls, rejected, failed) = (calls.calls, calls.rejected, calls.failed);
        write!(
            text,
            "cmdstat_{name}:calls={calls},usec=0,usec_per_call=0.00,rejected_calls={rejected},failed_calls={failed}\r\n"
        )
    })
}

fn errorstats(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    let errors = ctx.engine.stats.errors();
    errors
        .iter()
        .try_for_each(|(code, count)| write!(text, "errorstat_{}:count={count}\r\n", code.escape_ascii()))
}

fn latencystats(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    const PERCENTILES: Id = Id::of("latency-tracking-info-percentiles");
    const TRACKING: Id = Id::of("latency-tracking");
    let config = &ctx.engine.config;
    let percentiles = String::from_utf8_lossy(config.text(PERCENTILES));
    let fields: Vec<_> =
        percentiles.split_whitespace().map(|percentile| format!("p{percentile}=0.001")).collect();
    if !config.is_on(TRACKING) {
        return Ok(());
    }
    let called = ctx.engine.stats.commands().filter(|(_, calls)| calls.calls > 0);
    called
        .map(|(name, _)| name)
        .try_for_each(|name| write!(text, "latency_percentiles_usec_{name}:{}\r\n", fields.join(",")))
}

fn keyspace(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    let stats = ctx.engine.keyspace.stats();
    stats.iter().enumerate().filter(|(_, stats)| stats.keys > 0).try_for_each(|(db, stats)| {
        let (keys, expires, ttl) = (stats.keys, stats.expires, stats.ttl_millis);
        write!(text, "db{db}:keys={keys},expires={expires},avg_ttl={ttl}\r\n")
    })
}

fn sentinel(ctx: &mut Ctx<'_>, text: &mut String) -> fmt::Result {
    let primaries = ctx.engine.sentinel.iter().flat_map(|sentinel| &sentinel.primaries);
    lines(text, &[("sentinel_masters", &primaries.clone().count()), ("sentinel_tilt", &0)])?;
    lines(text, &[("sentinel_tilt_since_seconds", &-1)])?;
    zeros(text, "sentinel_running_scripts sentinel_scripts_queue_length sentinel_simulate_failure_flags")?;
    for (nth, primary) in primaries.enumerate() {
        let status = match () {
            () if primary.agreed_down_since.is_some() => "odown",
            () if primary.instance.down_since.is_some() => "sdown",
            () => "ok",
        };
        let (name, (host, port)) = (String::from_utf8_lossy(&primary.name), &primary.instance.address);
        let (replicas, sentinels) = (primary.replicas.len(), 1 + primary.sentinels.len());
        write!(text, "master{nth}:name={name},status={status},address={host}:{port},")?;
        write!(text, "slaves={replicas},sentinels={sentinels}\r\n")?;
    }
    Ok(())
}
