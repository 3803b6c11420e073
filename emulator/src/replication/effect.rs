//! Effects of commands, and the units in which replicas get them.

use bytes::Bytes;

/// A command that changes a replica as its primary has changed. Deadlines are absolute, and what
/// was chosen at random is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The index of the database.
    pub db: usize,
    /// The arguments, the name first.
    pub argv: Vec<Bytes>,
}

/// The effects of one command, one transaction or one script. A replica applies all of them before
/// it runs anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    effects: Vec<Effect>,
    /// The database that the stream has selected before.
    selected: Option<usize>,
    stream_bytes: u64,
}

impl Unit {
    /// A unit that follows others in a stream. The last of those has selected a database.
    pub(crate) fn new(effects: Vec<Effect>, selected: Option<usize>) -> Unit {
        let mut unit = Unit { effects, selected, stream_bytes: 0 };
        unit.stream_bytes = unit.commands().iter().map(|argv| request_bytes(argv)).sum();
        unit
    }

    /// The effects, in order.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The database that the stream has selected after it.
    pub(crate) fn selects(&self) -> Option<usize> {
        self.effects.last().map(|effect| effect.db).or(self.selected)
    }

    /// The commands in the stream: the effects, with `SELECT` where the database changes. Several
    /// effects stand between `MULTI` and `EXEC`.
    pub fn commands(&self) -> Vec<Vec<Bytes>> {
        let mut commands = Vec::new();
        let mut selected = self.selected;
        for (nth, Effect { db, argv }) in self.effects.iter().enumerate() {
            if selected.replace(*db) != Some(*db) {
                commands.push(vec!["SELECT".into(), db.to_string().into()]);
            }
            if nth == 0 && self.effects.len() > 1 {
                commands.push(vec!["MULTI".into()]);
            }
            commands.push(argv.clone());
        }
        if self.effects.len() > 1 {
            commands.push(vec!["EXEC".into()]);
        }
        commands
    }

    /// The length of the commands in the stream, in bytes.
    pub(crate) fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }
}

/// The length of a command as a request, in bytes.
fn request_bytes(argv: &[Bytes]) -> u64 {
    let line = |number: usize| 1 + number.to_string().len() + 2;
    let bulk = |arg: &Bytes| line(arg.len()) + arg.len() + 2;
    (line(argv.len()) + argv.iter().map(bulk).sum::<usize>()) as u64
}
