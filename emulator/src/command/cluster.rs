//! Commands of a cluster. Clients call them to find out what they are connected to.
//!
//! This server is no cluster, so it refuses them as Redis does without `cluster-enabled`.

use super::Flag::{Fast, Loading, Stale};
use super::{Argv, Ctx, Outcome, Row};
use crate::error;

pub(super) const ROWS: &[Row] = &[
    Row::new("asking", 1, &[Fast], refuse).categories(&["connection"]),
    Row::container(
        "cluster",
        &[
            Row::new("cluster|info", 2, &[Stale], refuse).tips(&["nondeterministic_output"]),
            Row::new("cluster|keyslot", 3, &[Stale], refuse),
            Row::new("cluster|myid", 2, &[Stale], refuse),
            Row::new("cluster|nodes", 2, &[Stale], refuse).tips(&["nondeterministic_output"]),
            Row::new("cluster|shards", 2, &[Stale], refuse).tips(&["nondeterministic_output"]),
            Row::new("cluster|slots", 2, &[Stale], refuse).tips(&["nondeterministic_output"]),
        ],
    ),
    Row::new("readonly", 1, &[Loading, Stale, Fast], refuse).categories(&["connection"]),
    Row::new("readwrite", 1, &[Loading, Stale, Fast], refuse).categories(&["connection"]),
];

/// `READONLY`, `READWRITE`, `ASKING`, `CLUSTER subcommand`
fn refuse(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Err(error::NO_CLUSTER)
}
