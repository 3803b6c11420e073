//! The addresses of servers.

/// Where a server finds another one: a host and a port.
pub type Address = (String, u16);

/// Whether two addresses are the same: names of this machine are equal.
pub fn is_same((host, port): &Address, (other_host, other_port): &Address) -> bool {
    let is_local = |host: &str| matches!(host, "127.0.0.1" | "localhost" | "::1");
    port == other_port && (host.eq_ignore_ascii_case(other_host) || is_local(host) && is_local(other_host))
}
