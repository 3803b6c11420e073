//! The details of a command that a full history shows beside its reply: the keys that it changed,
//! and its script.

use emulator::{Access, Resource, ScriptCall};

use super::{Server, Simulation};
use crate::live::Request;
use crate::render::{Format as _, SHOWN_VALUE_BYTES_MAX, format_words};
use crate::trace::{KeyChange, Script, Struck};

impl Simulation {
    /// The keys that the last command changed, with their new values. On a real server they are not
    /// known.
    pub(super) fn changed_keys(&self, server: usize) -> Vec<KeyChange> {
        let Some(footprint) = self.footprint(server) else { return Vec::new() };
        let mut keys: Vec<(usize, &[u8])> = footprint
            .iter()
            .filter_map(|(resource, access, _)| match resource {
                Resource::Key { db, key, .. } if access == Access::Write => Some((db, key)),
                _ => None,
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let show = |(db, key): (usize, &[u8])| {
            let held =
                self.read(server, |data| data.describe_value(db, key, SHOWN_VALUE_BYTES_MAX)).flatten();
            let (value, left_ms) = held.map_or((None, None), |(value, left_ms)| (Some(value), left_ms));
            KeyChange { db, key: key.escape_ascii().to_string(), value, left_ms }
        };
        keys.into_iter().map(show).collect()
    }

    /// The script that a request calls, with the commands that it has just called.
    pub(super) fn script(&mut self, server: usize, request: &Request) -> Option<Script> {
        request.scripts().for_each(|(sha, source)| self.name_script(&sha, &source));
        let Server::Emulator(emulator) = &self.servers[server] else { return request.script(|_| None) };
        let commands = emulator.take_script_calls();
        let script = request.script(|sha| emulator.script(sha))?;
        let show =
            |call: ScriptCall| (format_words(call.argv.iter().map(|word| &word[..])), call.reply.show());
        Some(Script { commands: commands.into_iter().map(show).collect(), ..script })
    }

    /// A request of this connection that a fault strikes.
    pub(super) fn struck(&mut self, gate: usize, request: &Request) -> Struck {
        let (_, server) = self.world.ends(gate);
        let script = self.script(server, request);
        Struck { server, text: request.text().0, script, is_message: false }
    }
}
