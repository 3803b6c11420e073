//! The addresses of servers.

use crate::cluster::Node;

/// Where a server finds another one: a host and a port.
pub type Address = (String, u16);

/// The host of servers that do not listen, and the first of their ports.
const HOST: &str = "127.0.0.1";
const FIRST_PORT: u16 = 6379;

/// The address of a server that does not listen.
pub fn default_address(node: Node) -> Address {
    (HOST.to_owned(), FIRST_PORT + node as u16)
}

/// Whether two addresses are the same: names of this machine are equal.
pub fn is_same((host, port): &Address, (other_host, other_port): &Address) -> bool {
    let is_local = |host: &str| matches!(host, "127.0.0.1" | "localhost" | "::1");
    port == other_port && (host.eq_ignore_ascii_case(other_host) || is_local(host) && is_local(other_host))
}
