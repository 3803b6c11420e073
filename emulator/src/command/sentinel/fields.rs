//! How `SENTINEL MASTERS`, `REPLICAS` and `SENTINELS` show what a Sentinel knows.

use std::fmt::{Display, Write as _};

use crate::clock::Timestamp;
use crate::reply::Reply;
use crate::sentinel::{Companion, Instance, Primary};

/// The fields of a map, as texts.
#[derive(Default)]
struct Fields(Vec<(Reply, Reply)>);

impl Fields {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push((Reply::bulk(name), Reply::bulk(value.to_string())));
    }

    fn add_since(&mut self, name: &str, at: Timestamp, now: Timestamp) {
        self.add(name, now.since(at).as_millis());
    }
}

/// A primary.
pub(super) fn of_primary(primary: &Primary, now: Timestamp) -> Reply {
    let Primary { instance, settings, .. } = primary;
    let mut fields = Fields::default();
    fields.0.push((Reply::bulk("name"), Reply::bulk(&primary.name)));
    address(&mut fields, instance);
    let flags = [
        (instance.down_since.is_some(), "s_down"),
        (primary.agreed_down_since.is_some(), "o_down"),
        (true, "master"),
        (!instance.is_connected, "disconnected"),
        (primary.candidacy.is_some(), "failover_in_progress"),
    ];
    add_flags(&mut fields, &flags);
    if primary.candidacy.is_some() {
        fields.add("failover-state", "wait_start");
    }
    answers(&mut fields, instance, now);
    if let Some(since) = primary.agreed_down_since {
        fields.add_since("o-down-time", since, now);
    }
    fields.add("down-after-milliseconds", settings.down_after.as_millis());
    role(&mut fields, instance, now);
    fields.add("config-epoch", primary.config_epoch);
    fields.add("num-slaves", primary.replicas.len());
    fields.add("num-other-sentinels", primary.sentinels.len());
    fields.add("quorum", settings.quorum);
    fields.add("failover-timeout", settings.failover_timeout.as_millis());
    fields.add("parallel-syncs", settings.parallel_syncs);
    Reply::Map(fields.0)
}

/// A replica of a primary.
pub(super) fn of_replica(primary: &Primary, replica: &Instance, now: Timestamp) -> Reply {
    let mut fields = Fields::default();
    let (host, port) = &replica.address;
    fields.add("name", format_args!("{host}:{port}"));
    address(&mut fields, replica);
    let flags =
        [(replica.down_since.is_some(), "s_down"), (true, "slave"), (!replica.is_connected, "disconnected")];
    add_flags(&mut fields, &flags);
    answers(&mut fields, replica, now);
    fields.add("down-after-milliseconds", primary.settings.down_after.as_millis());
    role(&mut fields, replica, now);
    let report = replica.report.as_ref();
    let upstream = report.and_then(|report| report.upstream.as_ref());
    let is_up = matches!(upstream, Some((_, None)));
    fields.add("master-link-down-time", replica.link_down_for().as_millis());
    fields.add("master-link-status", if is_up { "ok" } else { "err" });
    fields.add("master-host", upstream.map_or("?", |((host, _), _)| host));
    fields.add("master-port", upstream.map_or(0, |((_, port), _)| *port));
    fields.add("slave-priority", report.map_or(DEFAULT_PRIORITY, |report| report.priority));
    fields.add("slave-repl-offset", report.filter(|_| upstream.is_some()).map_or(0, |report| report.offset));
    fields.add("replica-announced", 1);
    Reply::Map(fields.0)
}

/// The priority of a replica that has not been reached yet.
const DEFAULT_PRIORITY: u64 = 100;

/// Another Sentinel.
pub(super) fn of_sentinel(primary: &Primary, other: &Companion, now: Timestamp) -> Reply {
    let instance = &other.instance;
    let mut fields = Fields::default();
    fields.add("name", &instance.id);
    address(&mut fields, instance);
    let flags = [
        (instance.down_since.is_some(), "s_down"),
        (true, "sentinel"),
        (!instance.is_connected, "disconnected"),
        (other.finds_down, "master_down"),
    ];
    add_flags(&mut fields, &flags);
    answers(&mut fields, instance, now);
    fields.add("down-after-milliseconds", primary.settings.down_after.as_millis());
    fields.add_since("last-hello-message", instance.answered_at, now);
    fields.add("voted-leader", "?");
    fields.add("voted-leader-epoch", other.voted_epoch);
    Reply::Map(fields.0)
}

fn address(fields: &mut Fields, instance: &Instance) {
    let (host, port) = &instance.address;
    fields.add("ip", host);
    fields.add("port", port);
    fields.add("runid", &instance.id);
}

fn add_flags(fields: &mut Fields, flags: &[(bool, &str)]) {
    let flags: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect();
    fields.add("flags", flags.join(","));
    fields.add("link-pending-commands", 0);
    fields.add("link-refcount", 1);
}

/// When the process answered.
fn answers(fields: &mut Fields, instance: &Instance, now: Timestamp) {
    let silent_for = instance.silent_since.map_or(0, |since| now.since(since).as_millis());
    fields.add("last-ping-sent", silent_for);
    fields.add_since("last-ok-ping-reply", instance.answered_at, now);
    fields.add_since("last-ping-reply", instance.answered_at, now);
    if let Some(since) = instance.down_since {
        fields.add_since("s-down-time", since, now);
    }
}

/// The role that a server has shown.
fn role(fields: &mut Fields, instance: &Instance, now: Timestamp) {
    let age = instance.report.as_ref().map_or(0, |_| now.since(instance.answered_at).as_millis());
    fields.add("info-refresh", age);
    fields.add("role-reported", instance.role.word());
    fields.add_since("role-reported-time", instance.role_since, now);
}

/// The age of what a server has shown, and that as the text of `INFO`.
pub(super) fn info(instance: &Instance, now: Timestamp) -> Reply {
    let Some(report) = &instance.report else { return Reply::Array(vec![Reply::Integer(0), Reply::Nil]) };
    let age = now.since(instance.answered_at).as_millis() as i64;
    let mut text = format!("# Server\r\nrun_id:{}\r\n\r\n# Replication\r\n", report.run_id);
    let offset = report.offset;
    // Writing to a `String` cannot fail.
    _ = match &report.upstream {
        None => write!(text, "role:master\r\nconnected_slaves:{}\r\n", report.followers.len()),
        Some(((host, port), down_for)) => {
            let status = if down_for.is_some() { "down" } else { "up" };
            let priority = report.priority;
            write!(
                text,
                "role:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\nmaster_link_status:{status}\r\n\
                 slave_repl_offset:{offset}\r\nslave_priority:{priority}\r\nreplica_announced:1\r\n"
            )
        }
    };
    _ = write!(text, "master_repl_offset:{offset}\r\n");
    Reply::Array(vec![Reply::Integer(age), Reply::bulk(text)])
}
