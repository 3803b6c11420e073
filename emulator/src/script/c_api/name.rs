//! The upvalues that each C function has.

use std::ffi::c_int;

/// A field of a table, or the text of an error, that conversions need. Each C function has all of
/// them as upvalues, so that to push one allocates nothing.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Name {
    Err,
    Ok,
    Double,
    Map,
    Set,
    BigNumber,
    VerbatimString,
    Format,
    String,
    Source,
    Line,
    IgnoreErrorStatsUpdate,
    MustEnd,
    Keys,
    Argv,
}

/// The texts of [`Name`], in the same order.
pub(super) const NAMES: [&str; 15] = [
    "err",
    "ok",
    "double",
    "map",
    "set",
    "big_number",
    "verbatim_string",
    "format",
    "string",
    "source",
    "line",
    "ignore_error_stats_update",
    "the script must end",
    "KEYS",
    "ARGV",
];

/// The upvalue with the pointer to the script's state. The names follow it.
pub(super) const STATE_UPVALUE: c_int = 1;

/// The first upvalue after the names.
pub(super) const FREE_UPVALUE: c_int = STATE_UPVALUE + 1 + NAMES.len() as c_int;
