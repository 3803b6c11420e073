//! Commands of a cluster. A server without one refuses them as Redis does without
//! `cluster-enabled`. <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>

mod roles;
mod slots;
mod layout;

use super::Flag::{self, Admin, Fast, Loading, NoAsyncLoading, Stale};
use super::{Argv, Ctx, Outcome, Row, docs};
use crate::reply::Reply;

/// The flags of commands that change the cluster.
const CHANGES: &[Flag] = &[Admin, Stale, NoAsyncLoading];
const CHANGING: &[&str] = &["nondeterministic_output"];

pub(super) const ROWS: &[Row] = &[
    Row::new("asking", 1, &[Fast], asking).categories(&["connection"]),
    Row::container(
        "cluster",
        &[
            Row::new("cluster|addslots", -3, CHANGES, slots::add),
            Row::new("cluster|addslotsrange", -4, CHANGES, slots::add_ranges),
            Row::new("cluster|bumpepoch", 2, CHANGES, roles::bump_epoch).tips(CHANGING),
            Row::new("cluster|count-failure-reports", 3, &[Admin, Stale], roles::count_failure_reports)
                .tips(CHANGING),
            Row::new("cluster|countkeysinslot", 3, &[Stale], slots::count_keys),
            Row::new("cluster|delslots", -3, CHANGES, slots::delete),
            Row::new("cluster|delslotsrange", -4, CHANGES, slots::delete_ranges),
            Row::new("cluster|failover", -2, CHANGES, roles::failover),
            Row::new("cluster|flushslots", 2, CHANGES, slots::flush),
            Row::new("cluster|getkeysinslot", 4, &[Stale], slots::get_keys).tips(CHANGING),
            Row::new("cluster|help", 2, &[Loading, Stale], help),
            Row::new("cluster|info", 2, &[Stale], layout::info).tips(CHANGING),
            Row::new("cluster|keyslot", 3, &[Stale], slots::key_slot),
            Row::new("cluster|links", 2, &[Stale], layout::links).tips(CHANGING),
            Row::new("cluster|meet", -4, CHANGES, roles::meet),
            Row::new("cluster|myid", 2, &[Stale], layout::my_id),
            Row::new("cluster|nodes", 2, &[Stale], layout::nodes).tips(CHANGING),
            Row::new("cluster|replicas", 3, &[Admin, Stale], layout::replicas).tips(CHANGING),
            Row::new("cluster|replicate", 3, CHANGES, roles::replicate),
            Row::new("cluster|saveconfig", 2, CHANGES, roles::save_config),
            Row::new("cluster|set-config-epoch", 3, CHANGES, roles::set_config_epoch),
            Row::new("cluster|setslot", -4, CHANGES, slots::set),
            Row::new("cluster|shards", 2, &[Stale], layout::shards).tips(CHANGING),
            Row::new("cluster|slaves", 3, &[Admin, Stale], layout::replicas).tips(CHANGING),
            Row::new("cluster|slots", 2, &[Stale], layout::slots).tips(CHANGING),
        ],
    ),
    Row::new("readonly", 1, &[Loading, Stale, Fast], |ctx, _| read_replicas(ctx, true))
        .categories(&["connection"]),
    Row::new("readwrite", 1, &[Loading, Stale, Fast], |ctx, _| read_replicas(ctx, false))
        .categories(&["connection"]),
];

/// `ASKING`
fn asking(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    ctx.client.asking.holds_next = true;
    Ok(Reply::OK)
}

/// `READONLY` and `READWRITE`
fn read_replicas(ctx: &mut Ctx<'_>, reads: bool) -> Outcome {
    ctx.engine.cluster()?;
    ctx.client.reads_replicas = reads;
    Ok(Reply::OK)
}

/// `CLUSTER HELP`
fn help(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    docs::help(ctx, argv)
}
