//! The limits of unread output.

/// The limits of unread output for one kind of client: `client-output-buffer-limit`. A limit of 0
/// means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputLimit {
    pub(super) hard_bytes: usize,
    pub(super) soft_bytes: usize,
    /// How long a client may have more unread bytes than the soft limit.
    pub(super) soft_secs: i64,
}

impl OutputLimit {
    /// The limit of one class of clients, from the value of the parameter.
    pub(super) fn of(class: &str, text: &str) -> OutputLimit {
        let mut words = text.split(' ').skip_while(|word| *word != class).skip(1);
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0_u64);
        OutputLimit {
            hard_bytes: number() as usize,
            soft_bytes: number() as usize,
            soft_secs: number() as i64,
        }
    }
}
