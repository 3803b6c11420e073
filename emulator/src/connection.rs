//! One client's bytes: in come requests, out go replies and messages. Does no I/O, so a socket, an in-memory stream and a
//! fuzzer all drive the same code.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;

use crate::client::{Closing, Runs, Slot};
use crate::command::{self, borrow};
use crate::reply::Reply;
use crate::resp::{self, Decoder};
use crate::{Emulator, Shared};

/// The server's side of one connection.
pub struct Connection {
    shared: Arc<Shared>,
    slot: Slot,
    decoder: Decoder,
    /// What has come and not run yet: behind a command that waits, the rest waits too.
    input: BytesMut,
}

impl Connection {
    /// A connection as if a client had just connected.
    pub fn open(emulator: &Emulator) -> Connection {
        let shared = emulator.shared.clone();
        let slot = shared.engine().open_client().slot;
        Connection { shared, slot, decoder: Decoder::default(), input: BytesMut::new() }
    }

    /// From where the client connected, and to where, as `CLIENT LIST` shows it.
    pub(crate) fn set_addresses(&self, addresses: [String; 2]) {
        if let Some(client) = self.shared.engine().clients.get(self.slot) {
            client.addresses = addresses;
        }
    }

    /// At this door nobody waits: what would wait answers at once.
    pub(crate) fn never_waits(&self) {
        self.shared.engine().client(self.slot).runs = Runs::WithoutWaiting;
    }

    /// Takes bytes from the client, runs each request that they complete, and appends the replies to `output`.
    pub fn receive(&mut self, bytes: &[u8], output: &mut BytesMut) {
        self.input.extend_from_slice(bytes);
        self.proceed(output);
    }

    /// Appends what the server has to say by itself to `output`: messages, and replies to commands that have waited; then runs the
    /// requests that waited behind those. If there is nothing, the task is woken when there is.
    pub fn poll_messages(&mut self, cx: &mut Context<'_>, output: &mut BytesMut) -> Poll<()> {
        let before = output.len();
        self.proceed(output);
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        if output.len() > before || client.closing != Closing::No {
            return Poll::Ready(());
        }
        client.set_waker(cx.waker());
        Poll::Pending
    }

    /// Whether the connection is to be closed once the replies so far are written.
    pub fn is_closing(&self) -> bool {
        self.shared.engine().client(self.slot).closing != Closing::No
    }

    /// Ready once the connection is to be closed whether or not all is written.
    pub(crate) fn poll_killed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        if client.closing == Closing::Now {
            return Poll::Ready(());
        }
        client.set_waker(cx.waker());
        Poll::Pending
    }

    /// Lets happen what is due by the server's clock, for ever.
    pub(crate) fn drive(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(self.shared.clone().drive())
    }

    fn proceed(&mut self, output: &mut BytesMut) {
        let mut engine = self.shared.engine();
        loop {
            let client = engine.client(self.slot);
            while let Some(message) = client.take_message() {
                resp::encode(&message, client.protocol, output);
            }
            if client.is_blocked || client.closing != Closing::No {
                return;
            }
            match self.decoder.decode(&mut self.input) {
                Ok(Some(argv)) => {
                    let reply = command::call(&mut engine, self.slot, &borrow(&argv));
                    resp::encode(&reply, engine.client(self.slot).protocol, output);
                }
                Ok(None) => return,
                Err(error) => {
                    resp::encode(&Reply::Error(error), client.protocol, output);
                    client.close(Closing::WhenWritten);
                }
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.engine().close_client(self.slot);
    }
}
