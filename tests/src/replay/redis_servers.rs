//! Real servers of a replay's own: a `redis-server` for each server of a scenario, and for each of
//! its replicas. Replicas lag and take over when they are told to.
//!
//! A replica that is to lack writes leaves its primary before them: it follows a server that does
//! not exist. So it is like a replica whose link is slow, and it is exactly as far behind as it
//! should be.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use redis::{Client, RedisError, RedisResult};

use super::redis_process::{RedisProcess, RedisServersError, client_of, connection_to};
use crate::scenario::Scenario;

/// The longest wait for replicas. A new one copies all data of its primary first.
const CATCH_UP_MAX_MS: u64 = 9_000;
/// A message to it makes a write that changes no data.
const CHANNEL: &str = "lockstep-replay";
/// No server listens on this port.
const NOWHERE: u16 = 1;

/// The servers of a scenario, as processes that end when this is dropped.
#[derive(Debug)]
pub struct RedisServers {
    version: String,
    nodes: Vec<Node>,
    /// The nodes that clients find, by their servers.
    primaries: Vec<usize>,
    /// Nothing has run on them yet.
    are_new: bool,
}

/// A server or a replica.
#[derive(Debug)]
struct Node {
    port: u16,
    /// The server whose data it has.
    server: usize,
    /// `None` if it has failed.
    process: Option<RedisProcess>,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Primary,
    /// It gets what its primary writes.
    Replica,
    /// A replica that gets nothing more.
    Left,
    /// It was the primary, and still serves its clients.
    Deposed,
    /// It was the primary, and does not run.
    Gone,
}

/// How a primary goes when a replica takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It is killed.
    Dies,
    /// It does not notice.
    Stays,
    /// It hands over by `FAILOVER`.
    HandsOver,
}

impl RedisServers {
    /// Starts a `redis-server` for each server of a scenario, and for each replica, on free ports
    /// of this machine. They leave nothing on disk.
    ///
    /// # Errors
    /// `redis-server` is not installed, or does not start.
    pub fn start(scenario: &Scenario) -> Result<RedisServers, RedisServersError> {
        let Scenario { servers, replicas, .. } = *scenario;
        let version = RedisProcess::version()?;
        let node = |number: usize| {
            let process = RedisProcess::start()?;
            let server = if number < servers { number } else { (number - servers) / replicas };
            Ok(Node { port: process.port, server, process: Some(process), role: Role::Primary })
        };
        let nodes = (0..scenario.nodes()).map(node).collect::<Result<_, RedisServersError>>()?;
        let mut started = RedisServers { version, nodes, primaries: (0..servers).collect(), are_new: true };
        started.link()?;
        Ok(started)
    }

    /// Makes all servers as they were at the start.
    pub(super) fn renew(&mut self) -> Result<(), RedisServersError> {
        if std::mem::take(&mut self.are_new) {
            return Ok(());
        }
        for node in &mut self.nodes {
            node.process = None;
            node.process = Some(RedisProcess::start_on(node.port)?);
        }
        self.primaries = (0..self.primaries.len()).collect();
        self.link()
    }

    /// Lets the replicas follow their primaries, and waits until they do.
    fn link(&mut self) -> Result<(), RedisServersError> {
        for number in 0..self.nodes.len() {
            self.nodes[number].role = Role::Primary;
            if number >= self.primaries.len() {
                self.follow(number)?;
            }
        }
        (0..self.primaries.len()).try_for_each(|server| self.catch_up(server))
    }

    /// Clients of all servers, replicas included, by their numbers.
    pub(super) fn clients(&self) -> Vec<Client> {
        self.nodes.iter().map(|node| client_of(node.port)).collect()
    }

    /// A replica gets nothing more. It has all that its primary has written so far.
    pub(super) fn leave(&mut self, node: usize) -> Result<(), RedisServersError> {
        self.catch_up_with(node)?;
        self.follow_port(node, NOWHERE)?;
        self.nodes[node].role = Role::Left;
        Ok(())
    }

    /// A replica that has left gets everything again.
    pub(super) fn come_back(&mut self, node: usize) -> Result<(), RedisServersError> {
        self.follow(node)
    }

    /// A replica has all that its primary has written so far.
    pub(super) fn catch_up_with(&mut self, node: usize) -> Result<(), RedisServersError> {
        self.catch_up(self.nodes[node].server)
    }

    /// A replica takes over with all that it has got, or with everything if it has not left.
    pub(super) fn take_over(&mut self, node: usize, departure: Departure) -> Result<(), RedisServersError> {
        let server = self.nodes[node].server;
        let own = (0..self.nodes.len()).filter(|&other| self.nodes[other].server == server);
        let own: Vec<usize> = own.collect();
        for &other in own.iter().filter(|&&other| self.nodes[other].role == Role::Deposed).collect::<Vec<_>>()
        {
            self.follow(other)?;
        }
        if self.nodes[node].role != Role::Left {
            self.catch_up(server)?;
        }
        let former = self.primaries[server];
        match departure {
            Departure::Dies => (self.nodes[former].process, self.nodes[former].role) = (None, Role::Gone),
            Departure::Stays => self.nodes[former].role = Role::Deposed,
            Departure::HandsOver => self.hand_over(former, node)?,
        }
        if departure != Departure::HandsOver {
            self.ask(node, |connection| redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(connection))?;
        }
        (self.primaries[server], self.nodes[node].role) = (node, Role::Primary);
        for other in own {
            if matches!(self.nodes[other].role, Role::Replica | Role::Left) {
                self.follow(other)?;
            }
        }
        Ok(())
    }

    /// Waits until all replicas of a server have what it has written, but for those that have left.
    /// One that has failed starts anew.
    fn catch_up(&mut self, server: usize) -> Result<(), RedisServersError> {
        for node in 0..self.nodes.len() {
            let Node { port, server: of, role, .. } = self.nodes[node];
            if of == server && role == Role::Gone {
                self.nodes[node].process = Some(RedisProcess::start_on(port)?);
                self.follow(node)?;
            }
        }
        let replicas = self.nodes.iter().filter(|node| node.server == server && node.role == Role::Replica);
        let wanted = replicas.count();
        if wanted == 0 {
            return Ok(());
        }
        let primary = self.primaries[server];
        let mut wait = redis::pipe();
        wait.cmd("PUBLISH").arg(CHANNEL).arg("").ignore();
        wait.cmd("WAIT").arg(wanted).arg(CATCH_UP_MAX_MS);
        let (reached,): (usize,) = self.ask(primary, |connection| wait.query(connection))?;
        if reached < wanted {
            return Err(RedisServersError::Behind { number: primary + 1, reached, wanted });
        }
        Ok(())
    }

    /// A node follows the primary of its server from now on, and copies what that has.
    fn follow(&mut self, node: usize) -> Result<(), RedisServersError> {
        let port = self.nodes[self.primaries[self.nodes[node].server]].port;
        self.follow_port(node, port)?;
        self.nodes[node].role = Role::Replica;
        Ok(())
    }

    fn follow_port(&self, node: usize, port: u16) -> Result<(), RedisServersError> {
        self.ask(node, |connection| redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).exec(connection))
    }

    /// A primary hands over to one of its replicas, and follows it.
    fn hand_over(&mut self, primary: usize, to: usize) -> Result<(), RedisServersError> {
        let mut failover = redis::cmd("FAILOVER");
        failover.arg("TO").arg("127.0.0.1").arg(self.nodes[to].port);
        self.ask(primary, |connection| {
            failover.exec(connection)?;
            // The primary holds back what may be a write until the failover is over.
            redis::cmd("PUBLISH").arg(CHANNEL).arg("").exec(connection)
        })?;
        (self.nodes[primary].role, self.nodes[to].role) = (Role::Replica, Role::Primary);
        Ok(())
    }

    fn ask<T>(
        &self,
        node: usize,
        ask: impl Fn(&mut redis::Connection) -> RedisResult<T>,
    ) -> Result<T, RedisServersError> {
        let port = self.nodes[node].port;
        loop {
            return match connection_to(port).and_then(|mut connection| ask(&mut connection)) {
                // A signal has come. What it asks for is done between two steps.
                Err(error) if is_interrupted(&error) => continue,
                Err(error) => Err(RedisServersError::Fails { number: node + 1, port, error }),
                Ok(answer) => Ok(answer),
            };
        }
    }
}

fn is_interrupted(error: &RedisError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let error = source.and_then(|source| source.downcast_ref::<io::Error>());
    error.is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
}

/// Prints `redis-server 7.0.15: server 1 on port 40001; its replica, server 2, on port 40002`.
impl fmt::Display for RedisServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis-server {}", self.version)?;
        for (number, Node { port, server, .. }) in self.nodes.iter().enumerate() {
            let sign = if number == 0 { ":" } else { ";" };
            write!(f, "{sign} server {} on port {port}", number + 1)?;
            if number >= self.primaries.len() {
                write!(f, ", a replica of server {}", server + 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_no_failure_of_a_server() {
        let error = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        assert!(is_interrupted(&error(io::ErrorKind::Interrupted)));
        assert!(!is_interrupted(&error(io::ErrorKind::WouldBlock)));
    }
}
