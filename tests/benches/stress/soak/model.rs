//! The replies of Redis to one client whose keys no other client changes. It is an interpreter of
//! the commands that `draw` draws, also in transactions.

use redis::Value;

use super::arguments::{Argv, name};
use super::expect::{Expect, is, ok};
use super::keyspace::Keyspace;
use crate::client::error;

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) keyspace: Keyspace,
    /// The commands between MULTI and EXEC; `None` outside.
    queue: Option<Vec<Argv>>,
    /// A command was refused since MULTI.
    is_aborted: bool,
    watched: Option<Vec<u8>>,
    /// The watched key was set after it was watched.
    is_touched: bool,
}

impl Model {
    /// Runs a command and returns the correct replies.
    pub(super) fn apply(&mut self, argv: &[Vec<u8>]) -> Expect {
        let name = name(argv);
        if let Some(queue) = &mut self.queue {
            match name {
                "EXEC" | "DISCARD" => {}
                "NOSUCH" => self.is_aborted = true,
                _ => {
                    queue.push(argv.to_vec());
                    return Expect::Is(Value::SimpleString("QUEUED".into()));
                }
            }
        }
        match name {
            "MULTI" => {
                self.queue = Some(Vec::new());
                ok()
            }
            "DISCARD" => {
                self.disconnect();
                ok()
            }
            "EXEC" => {
                let (queue, is_aborted, is_touched) =
                    (self.queue.take().unwrap_or_default(), self.is_aborted, self.is_touched);
                self.disconnect();
                if is_aborted {
                    is(error("EXECABORT Transaction discarded because of previous errors."))
                } else if is_touched {
                    is(Value::Nil)
                } else {
                    Expect::Each(queue.iter().map(|argv| self.keyspace.run(argv)).collect())
                }
            }
            "WATCH" => {
                self.watched = Some(argv[1].clone());
                ok()
            }
            _ => {
                if name == "SET" && self.watched.as_ref() == Some(&argv[1]) {
                    self.is_touched = true;
                }
                self.keyspace.run(argv)
            }
        }
    }

    /// Drops the transaction and the watched key, which end with the connection.
    pub(super) fn disconnect(&mut self) {
        (self.queue, self.is_aborted, self.watched, self.is_touched) = (None, false, None, false);
    }
}
