//! Limiters: at most so many requests in any span as long as the window, of all clients together.

pub mod incr_expire;
pub mod incr_by_window;
pub mod incr_in_script;
pub mod sliding_window_counter;
pub mod zset_log;
pub mod token_bucket;
pub mod leaky_bucket;
pub mod gcra;
