//! The one way to what the engine keeps beside the keyspace: scripts, functions, subscriptions and
//! settings. Each access records itself in the footprint, so no command has to.

use bytes::Bytes;

use super::state::Engine;
use crate::client::Client;
use crate::config::Config;
use crate::error::Error;
use crate::footprint::Access;
use crate::pubsub::Subscribers;
use crate::script::{Functions, ReadyFunction, ReadyScript, Scripts, Sha};
use crate::topic::Topic;

impl Engine {
    /// Adds a script to the cache if it is missing.
    ///
    /// # Errors
    /// The script does not compile.
    pub(crate) fn load_script(&mut self, source: &[u8]) -> Result<Sha, Error> {
        let sha = self.scripts.sha(source);
        let is_known = self.scripts.lookup(&sha).is_some();
        let access = if is_known { Access::Read } else { Access::Write };
        self.keyspace.footprint_mut().script(access, &sha);
        if is_known { Ok(sha) } else { self.scripts.load(source) }
    }

    /// The SHA1 of a known script in lower case. `sha` may have digits of either case.
    pub(crate) fn lookup_script(&mut self, sha: &[u8]) -> Option<Sha> {
        self.keyspace.footprint_mut().script(Access::Read, sha);
        self.scripts.lookup(sha)
    }

    /// The source of a known script.
    pub(crate) fn script_source(&self, sha: &[u8]) -> Option<Bytes> {
        self.scripts.known().get(&self.scripts.lookup(sha)?).cloned()
    }

    /// Removes every script.
    pub(crate) fn flush_scripts(&mut self) {
        self.keyspace.footprint_mut().scripts(Access::Write);
        self.scripts.flush();
    }

    /// Takes out what is needed to run a known script, so that it can run while it has the engine.
    ///
    /// # Errors
    /// There is no such script, or it does not compile.
    pub(crate) fn take_script(&mut self, sha: &Sha) -> Result<ReadyScript, Error> {
        self.scripts.take(sha)
    }

    /// Puts back the Lua state of a script. The script may have changed what it shares with the
    /// next scripts in Lua.
    pub(crate) fn put_back_script(&mut self, ready: ReadyScript) {
        let has_changed_settings = self.scripts.put_back(ready);
        if has_changed_settings {
            self.keyspace.footprint_mut().scripts(Access::Write);
        }
    }

    /// The libraries of functions, to be read or changed. A call of a function may change what the
    /// library keeps in Lua, so it is a change.
    pub(crate) fn functions(&mut self, access: Access) -> &mut Functions {
        self.keyspace.footprint_mut().functions(access);
        &mut self.functions
    }

    /// Puts back the Lua state of a function that was taken out of [`Engine::functions`].
    pub(crate) fn put_back_function(&mut self, ready: ReadyFunction) {
        self.functions.put_back(ready);
    }

    /// The scripts and functions, without a record. Only a command that records them itself, or
    /// that concerns all others, may read them here.
    pub(crate) fn peek_programs(&self) -> (&Scripts, &Functions) {
        (&self.scripts, &self.functions)
    }

    /// Records that the execution needs the connection of its client to be open.
    pub(crate) fn use_connection(&mut self) {
        self.keyspace.footprint_mut().connections(Access::Read);
    }

    /// Adds a subscription of a client.
    pub(crate) fn subscribe(&mut self, client: &mut Client, topic: Topic, name: &Bytes) {
        self.keyspace.footprint_mut().subscription(topic, name);
        client.subscriptions[topic as usize].insert(name.clone());
        self.pubsub.subscribe(topic, name, client.slot);
    }

    /// Ends a subscription of a client.
    pub(crate) fn unsubscribe(&mut self, client: &mut Client, topic: Topic, name: &Bytes) {
        self.keyspace.footprint_mut().subscription(topic, name);
        client.subscriptions[topic as usize].remove(name);
        self.pubsub.unsubscribe(topic, name, client.slot);
    }

    /// Ends all subscriptions of a client.
    pub(super) fn unsubscribe_all(&mut self, client: &mut Client) {
        for topic in Topic::ALL {
            for name in std::mem::take(&mut client.subscriptions[topic as usize]) {
                self.unsubscribe(client, topic, &name);
            }
        }
    }

    /// Sends a message to all subscribers of a channel, and returns their number.
    pub(crate) fn publish(&mut self, topic: Topic, channel: &Bytes, payload: &Bytes) -> usize {
        let messages = self.pubsub.publish(topic, channel, payload);
        let (count, footprint) = (messages.len(), self.keyspace.footprint_mut());
        footprint.subscribers(channel);
        if count > 0 {
            footprint.channel(Access::Write, channel);
        }
        messages.into_iter().for_each(|(slot, message)| self.outbox.send(slot, message));
        count
    }

    /// The number of subscribers of one name.
    pub(crate) fn count_subscribers(&mut self, topic: Topic, name: &[u8]) -> usize {
        self.keyspace.footprint_mut().subscribers(name);
        self.pubsub.subscribers(topic).get(name).map_or(0, indexmap::IndexSet::len)
    }

    /// All names that have subscribers, with these.
    pub(crate) fn subscribers(&mut self, topic: Topic) -> &Subscribers {
        self.keyspace.footprint_mut().channels(Access::Read);
        self.pubsub.subscribers(topic)
    }

    /// All parameters.
    pub(crate) fn parameters(&mut self) -> &Config {
        self.keyspace.footprint_mut().settings(Access::Read);
        &self.config
    }

    /// Sets parameters: all of them or none.
    ///
    /// # Errors
    /// A name is unknown, or a value is wrong.
    pub(crate) fn set_parameters(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.keyspace.footprint_mut().settings(Access::Read);
        if self.config.set(pairs)? {
            self.concern_all();
            self.apply_settings();
        }
        Ok(())
    }

    /// Records that the execution conflicts with every other one: it changes what any command may
    /// depend on, or reads what any command may change.
    pub(crate) fn concern_all(&mut self) {
        self.keyspace.footprint_mut().settings(Access::Write);
    }
}
