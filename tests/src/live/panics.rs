//! Panics of tasks that the code of an actor spawned. tokio catches them, and reports them only to
//! code that awaits the task. A test must not pass then.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The texts of the panics on this thread that nobody has taken yet. `None` while no execution
    /// runs here.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Collects the panics on this thread until it is dropped.
pub(crate) struct Collecting;

impl Collecting {
    /// Begins. The process's panic hook is called first, as before.
    pub(crate) fn begin() -> Collecting {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                before(info);
                note(info);
            }));
        });
        PANICS.set(Some(Vec::new()));
        Collecting
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        PANICS.set(None);
    }
}

/// Runs code of an actor that is no spawned task, and returns the text if it panicked. The panics
/// that the code catches itself do not count.
pub(crate) fn within<R>(act: impl FnOnce() -> R) -> Result<R, String> {
    let before = PANICS.with_borrow(|panics| panics.as_ref().map_or(0, Vec::len));
    let result = catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text(&*panic));
    PANICS.with_borrow_mut(|panics| panics.iter_mut().for_each(|panics| panics.truncate(before)));
    result
}

/// The panics since this was last called.
pub(crate) fn take() -> Vec<String> {
    PANICS.with_borrow_mut(|panics| panics.as_mut().map(std::mem::take).unwrap_or_default())
}

fn note(info: &PanicHookInfo<'_>) {
    PANICS.with_borrow_mut(|panics| panics.iter_mut().for_each(|panics| panics.push(text(info.payload()))));
}

/// The text of a panic. If code opens a socket or a pipe, tokio's text names a remedy that nobody
/// has here.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(the panic has no text)");
    if text.contains(OF_TOKIO_WITHOUT_IO) { WITHOUT_IO } else { text }.into()
}

const OF_TOKIO_WITHOUT_IO: &str = "context was found, but IO is disabled";
const WITHOUT_IO: &str = "the code opens a connection by itself, and an exploration has no network: \
                          let it take its connection from outside, and pass it `client.connection()` \
                          or `client.multiplexed().await?`";

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics of the test itself, between two executions, are not those of an actor.
    #[test]
    fn panics_are_collected_only_during_an_execution() {
        let panics = || _ = catch_unwind(|| panic!("expected by this test"));
        let collecting = Collecting::begin();
        panics();
        assert_eq!(take(), ["expected by this test"]);
        drop(collecting);
        panics();
        assert!(take().is_empty());
    }
}
