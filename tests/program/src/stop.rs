//! Ctrl-C, and the other signals that ask a program to end.

use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of a command that was stopped before its end: that of a shell for SIGINT.
pub(crate) const STATUS: u8 = 130;

/// Ends the process at once.
pub(crate) fn end() -> ! {
    std::process::exit(STATUS.into())
}

/// Calls a function when the user stops the program. If the user does that again, the process ends
/// at once. The function runs on a thread of its own, and must return soon.
///
/// If the caller of the program ignores one of the signals, as `nohup` does, the function is never
/// called: all signals keep their effect.
pub(crate) fn on_signal(stop: impl Fn() + Send + 'static) {
    let is_stopping = AtomicBool::new(false);
    _ = ctrlc::try_set_handler(move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            end();
        }
        stop();
    });
}
