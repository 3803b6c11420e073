//! One client's bytes: in come requests, out go replies. Does no I/O, so a socket, an in-memory stream and a fuzzer all
//! drive the same code.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::client::Client;
use crate::command::{self, borrow};
use crate::reply::Reply;
use crate::resp::{self, Decoder};
use crate::{Emulator, Shared};

/// The server's side of one connection.
pub struct Connection {
    shared: Arc<Shared>,
    client: Client,
    decoder: Decoder,
    input: BytesMut,
}

impl Connection {
    /// A connection as if a client had just connected.
    pub fn open(emulator: &Emulator) -> Connection {
        let shared = emulator.shared.clone();
        let client = shared.engine().open_client();
        Connection { shared, client, decoder: Decoder::default(), input: BytesMut::new() }
    }

    /// Takes bytes from the client, runs each request that they complete, and appends the replies to `output`.
    pub fn receive(&mut self, bytes: &[u8], output: &mut BytesMut) {
        self.input.extend_from_slice(bytes);
        while !self.is_closing() {
            match self.decoder.decode(&mut self.input) {
                Ok(Some(argv)) => self.execute(&argv, output),
                Ok(None) => break,
                Err(error) => {
                    resp::encode(&Reply::Error(error), self.client.protocol, output);
                    self.client.closing = true;
                }
            }
        }
    }

    /// Whether the connection is to be closed once the replies so far are written.
    pub fn is_closing(&self) -> bool {
        self.client.closing
    }

    fn execute(&mut self, argv: &[Bytes], output: &mut BytesMut) {
        let reply = command::call(&mut self.shared.engine(), &mut self.client, &borrow(argv));
        resp::encode(&reply, self.client.protocol, output);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.engine().close_client(&self.client);
    }
}
