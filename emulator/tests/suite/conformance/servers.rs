//! What transcripts of several servers have in common: names of servers in place of ports.

use std::time::Duration;

use emulator::{Clock, Emulator};

/// The server of a client: that with the first letter of its name.
pub fn place(names: &[char], client: &str) -> Option<usize> {
    names.iter().position(|&name| client.starts_with(name))
}

/// A request with the port of a server in place of an argument such as `{a}`.
pub fn with_ports(request: &[u8], names: &[char], ports: &[u16]) -> String {
    let text = String::from_utf8_lossy(request).into_owned();
    names.iter().zip(ports).fold(text, |text, (name, port)| {
        let port = port.to_string();
        text.replace(&format!("$3\r\n{{{name}}}"), &format!("${}\r\n{port}", port.len()))
    })
}

/// Lets time pass on servers with one clock, and what is due then.
pub fn advance(clock: &Clock, servers: &[Emulator], span: Duration) {
    clock.advance(span);
    servers.iter().for_each(Emulator::tick);
}
