//! One client's bytes: in come requests, out go replies and messages. Does no I/O, so a socket, an in-memory stream and a
//! fuzzer all drive the same code.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};

use crate::client::{Closing, Runs, Slot};
use crate::command::{self, borrow};
use crate::engine::Engine;
use crate::reply::Reply;
use crate::resp::{self, Decoder};
use crate::{Emulator, Shared};

/// Bytes of replies behind which no further request runs before they are written: a client that does not read is not served.
const REPLIES_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of requests that a client may send while its command waits (Redis: `client-query-buffer-limit`).
const REQUESTS_BYTES_MAX: usize = 1024 * 1024 * 1024;

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
        Connection::over(emulator.shared.clone())
    }

    pub(crate) fn over(shared: Arc<Shared>) -> Connection {
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
        self.proceed(bytes, output, usize::MAX);
    }

    /// The same, but runs no request while more than [`REPLIES_BYTES_MAX`] of replies are to be written.
    pub(crate) fn receive_some(&mut self, bytes: &[u8], output: &mut BytesMut) {
        self.proceed(bytes, output, REPLIES_BYTES_MAX);
    }

    /// Whether it has taken bytes that have not run yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.input.is_empty()
    }

    /// Appends what the server has to say by itself to `output`: messages, and replies to commands that have waited; then runs the
    /// requests that waited behind those. If there is nothing, the task is woken when there is.
    pub fn poll_messages(&mut self, cx: &mut Context<'_>, output: &mut BytesMut) -> Poll<()> {
        let before = output.len();
        self.proceed(&[], output, REPLIES_BYTES_MAX);
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

    fn proceed(&mut self, mut bytes: &[u8], output: &mut BytesMut, replies_bytes_max: usize) {
        let Connection { shared, slot, decoder, input } = self;
        if !input.is_empty() {
            input.extend_from_slice(std::mem::take(&mut bytes));
        }
        let mut engine = shared.engine();
        loop {
            let client = engine.client(*slot);
            while let Some(message) = client.take_message() {
                resp::encode(&message, client.protocol, output);
            }
            if client.is_blocked || client.closing != Closing::No || output.len() >= replies_bytes_max {
                break;
            }
            let next = if input.is_empty() { bytes } else { &input[..] };
            let plain = if decoder.is_idle() { resp::plain_request(next) } else { None };
            let done = plain.map(|(argv, len)| {
                run(&mut engine, *slot, &argv, output);
                len
            });
            if let Some(len) = done {
                if input.is_empty() {
                    bytes = &bytes[len..];
                } else {
                    input.advance(len);
                }
                continue;
            }
            input.extend_from_slice(std::mem::take(&mut bytes));
            match decoder.decode(input) {
                Ok(Some(argv)) => run(&mut engine, *slot, &borrow(&argv), output),
                Ok(None) => break,
                Err(error) => {
                    let client = engine.client(*slot);
                    resp::encode(&Reply::Error(error), client.protocol, output);
                    client.close(Closing::WhenWritten);
                }
            }
        }
        input.extend_from_slice(bytes);
        if input.is_empty() {
            // What one big request took is not kept.
            *input = BytesMut::new();
        } else if input.len() > REQUESTS_BYTES_MAX {
            engine.client(*slot).close(Closing::Now);
        }
    }
}

fn run(engine: &mut Engine, slot: Slot, argv: &[&[u8]], output: &mut BytesMut) {
    let reply = command::call(engine, slot, argv);
    resp::encode(&reply, engine.client(slot).protocol, output);
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.engine().close_client(self.slot);
    }
}
