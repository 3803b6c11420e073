//! Text for people: requests, replies, keys, and the timeline of an execution.

mod format;
pub mod story;
mod folding;
pub(crate) mod teller;
pub(crate) mod timeline;

pub(crate) use format::{
    Format, SHOWN_VALUE_BYTES_MAX, brief, brief_command, bytes_of, first_key, format_command, format_error,
    format_words, is_printable, keys_of, on_one_line, quoted, script_name, without_numbers, written_keys,
};
pub use format::{format_url, printable};
