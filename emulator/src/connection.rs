//! The bytes of one client: requests come in, replies and messages go out.
//!
//! This module does no I/O, so a socket, an in-memory stream and a fuzzer all use the same code.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};

use crate::client::{Closing, Slot};
use crate::command::{self, borrow};
use crate::config::Id;
use crate::engine::Engine;
use crate::reply::Reply;
use crate::resp::{self, Decoder, Limits};
use crate::shared::Shared;

/// The capacity that an output keeps for its next replies, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The bytes of requests that a client may send before they run.
const CLIENT_QUERY_BUFFER_LIMIT: Id = Id::of("client-query-buffer-limit");
const PROTO_MAX_BULK_LEN: Id = Id::of("proto-max-bulk-len");

/// The server's side of one connection.
pub struct Connection {
    shared: Arc<Shared>,
    /// The client's slot.
    slot: Slot,
    decoder: Decoder,
    /// Bytes received that have not run yet. If a command waits, the requests after it wait, too.
    input: BytesMut,
    /// The received bytes may hold requests that can run.
    has_news: bool,
    /// The state of the client when the engine was last held.
    closing: Closing,
    /// Whether the client waited then because the whole server sleeps.
    is_held_asleep: bool,
}

/// The initial state of a client.
#[derive(Default)]
pub(crate) struct Origin {
    /// The client's address and the server's, as `CLIENT LIST` shows them.
    pub addresses: [String; 2],
    /// Whether its scripts may run for any time: see [`Client`](crate::client::Client).
    pub may_be_busy: bool,
}

impl Connection {
    pub(crate) fn over(shared: &Arc<Shared>) -> Connection {
        Connection::from_afar(shared.clone(), &mut shared.engine(), Origin::default())
    }

    /// Opens a connection of a client elsewhere, for a caller that holds the engine.
    pub(crate) fn from_afar(shared: Arc<Shared>, engine: &mut Box<Engine>, origin: Origin) -> Connection {
        let client = engine.open_client();
        (client.addresses, client.may_be_busy) = (origin.addresses, origin.may_be_busy);
        Connection {
            shared,
            slot: client.slot,
            decoder: Decoder::default(),
            input: BytesMut::new(),
            has_news: false,
            closing: Closing::No,
            is_held_asleep: false,
        }
    }

    /// Makes commands reply at once where they would wait, for a front end that cannot wait.
    #[cfg(feature = "redis")]
    pub(crate) fn never_waits(&mut self) {
        let shared = self.shared.clone();
        let mut engine = shared.engine();
        engine.client(self.slot).context = crate::client::CallContext::WithoutWaiting;
    }

    /// Takes bytes from the client, runs each request that they complete, and appends the replies
    /// to `output`.
    pub fn receive(&mut self, bytes: &[u8], output: &mut BytesMut) {
        let shared = self.shared.clone();
        let mut engine = shared.engine();
        self.exchange(&mut engine, bytes, output, usize::MAX);
        // The output counts as written, because it is not known when the caller writes it.
        self.set_unwritten(&mut engine, 0);
    }

    /// Like [`receive`](Connection::receive), for a caller that writes the output in parts: it
    /// counts as unwritten until the next call.
    ///
    /// When this call has made `replies_bytes_max` bytes of replies, further requests run at a
    /// later call.
    pub(crate) fn exchange(
        &mut self,
        engine: &mut Box<Engine>,
        bytes: &[u8],
        output: &mut BytesMut,
        replies_bytes_max: usize,
    ) {
        self.proceed(engine, bytes, output, replies_bytes_max);
        self.set_unwritten(engine, output.len());
    }

    /// Records how many bytes of the output are not written yet, or not read yet by a client inside
    /// the process.
    pub(crate) fn note_unwritten(&mut self, bytes: usize) {
        let shared = self.shared.clone();
        self.set_unwritten(&mut shared.engine(), bytes);
    }

    fn set_unwritten(&mut self, engine: &mut Box<Engine>, bytes: usize) {
        engine.set_unwritten(self.slot, bytes);
    }

    /// Keeps bytes for later.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.has_news = true;
    }

    /// Whether it keeps bytes for later, or has run only some of the requests in the received
    /// bytes.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether the connection is to be closed, as of the last time that the engine was held.
    pub(crate) fn closing(&self) -> Closing {
        self.closing
    }

    /// Whether the client waits because `DEBUG SLEEP` stops the server, as of the last time that
    /// the engine was held.
    pub(crate) fn is_held_asleep(&self) -> bool {
        self.is_held_asleep
    }

    fn note_state(&mut self, engine: &mut Engine) {
        let is_asleep = engine.asleep_until.is_some();
        let client = engine.client(self.slot);
        (self.closing, self.is_held_asleep) = (client.closing, client.is_blocked && is_asleep);
    }

    /// Appends messages, and replies to commands that have waited, to `output`. Then runs the
    /// requests that waited after those.
    ///
    /// If there is nothing to append, the task is woken when there is.
    pub fn poll_messages(&mut self, cx: &mut Context<'_>, output: &mut BytesMut) -> Poll<()> {
        let shared = self.shared.clone();
        let mut engine = shared.engine();
        let before = output.len();
        self.exchange(&mut engine, &[], output, usize::MAX);
        self.set_unwritten(&mut engine, 0);
        if output.len() > before || self.closing != Closing::No {
            return Poll::Ready(());
        }
        self.wake_with(&mut engine, cx);
        Poll::Pending
    }

    /// Wakes the task when there is a message, or when the connection is to be closed.
    pub(crate) fn wake_with(&mut self, engine: &mut Box<Engine>, cx: &mut Context<'_>) {
        engine.client(self.slot).set_waker(cx.waker());
    }

    /// Whether the connection is to be closed after the replies so far are written.
    pub fn is_closing(&self) -> bool {
        self.shared.engine().client(self.slot).closing != Closing::No
    }

    /// Runs everything that is due by the server's clock, for ever.
    pub(crate) fn drive(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(self.shared.clone().drive())
    }

    fn proceed(
        &mut self,
        engine: &mut Box<Engine>,
        mut bytes: &[u8],
        output: &mut BytesMut,
        replies_bytes_max: usize,
    ) {
        let slot = self.slot;
        self.has_news = false;
        if bytes.is_empty() && self.input.is_empty() && !engine.client(slot).has_messages() {
            self.note_state(engine);
            return;
        }
        let (received, before) = (bytes.len(), output.len());
        let requests_bytes_max = engine.config.size(CLIENT_QUERY_BUFFER_LIMIT);
        if !self.input.is_empty() {
            self.input.extend_from_slice(std::mem::take(&mut bytes));
        }
        engine.begin_requests();
        self.run_requests(engine, bytes, output, replies_bytes_max);
        engine.end_requests();
        if self.input.len() > requests_bytes_max {
            engine.kill(slot);
        }
        self.note_state(engine);
        if self.input.is_empty() || self.closing != Closing::No {
            // The memory of one big request is not kept. Bytes after the last request of a closing
            // connection are ignored.
            self.input = BytesMut::new();
        }
        engine.stats.count_traffic(received, output.len().saturating_sub(before));
    }

    /// Runs requests until one is incomplete or must wait, and keeps the bytes that remain. If
    /// bytes are kept from before, `bytes` must be empty.
    fn run_requests(
        &mut self,
        engine: &mut Box<Engine>,
        mut bytes: &[u8],
        output: &mut BytesMut,
        replies_bytes_max: usize,
    ) {
        let (slot, before) = (self.slot, output.len());
        let bulk_bytes_max = engine.config.size(PROTO_MAX_BULK_LEN);
        let requests_bytes_max = engine.config.size(CLIENT_QUERY_BUFFER_LIMIT);
        let Connection { decoder, input, has_news, .. } = self;
        loop {
            let client = engine.client(slot);
            while let Some(message) = client.take_message() {
                resp::encode(&message, client.protocol, output);
            }
            if client.is_blocked || client.closing != Closing::No {
                break;
            }
            if output.len() - before >= replies_bytes_max {
                *has_news = true;
                break;
            }
            let is_authenticated = client.is_authenticated || engine.password.is_empty();
            decoder.limits = Limits { bulk_bytes_max, is_authenticated };
            let next = if input.is_empty() { bytes } else { &input[..] };
            if next.is_empty() {
                break;
            }
            let is_fast = decoder.is_idle() && is_authenticated;
            let plain = if is_fast { resp::plain_request(next) } else { None };
            let done = plain.map(|(argv, len)| {
                run(engine, slot, &argv, output);
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
            match decoder.decode(input).transpose() {
                // While Redis reads a long argument, it also counts the end of the line.
                Some(Ok(argv)) if argv.iter().any(|arg| arg.len() + 2 > requests_bytes_max) => {
                    engine.kill(slot);
                }
                Some(Ok(argv)) if argv.is_empty() => engine.client(slot).end_request(),
                Some(Ok(argv)) => run(engine, slot, &borrow(&argv), output),
                None => break,
                Some(Err(error)) => {
                    let client = engine.client(slot);
                    resp::encode(&client.wanted(Reply::Error(error)), client.protocol, output);
                    client.close(Closing::WhenWritten);
                }
            }
        }
        input.extend_from_slice(bytes);
    }
}

/// Frees the memory of a large output, when all of it is written.
pub(crate) fn give_back(output: &mut BytesMut) {
    if output.is_empty() && output.capacity() > KEPT_BYTES_MAX {
        *output = BytesMut::new();
    }
}

fn run(engine: &mut Box<Engine>, slot: Slot, argv: &[&[u8]], output: &mut BytesMut) {
    let reply = command::call(engine, slot, argv);
    let client = engine.client(slot);
    resp::encode(&reply, client.protocol, output);
    client.unwritten_bytes = output.len();
    engine.limit_output(slot);
    if engine.client(slot).closing == Closing::Now {
        output.clear();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close_client(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emulator;
    use crate::clock::Clock;

    /// The replies to `TIME` before and after a request that replies `OK`, in one batch.
    fn times_around(request: &str) -> (String, String) {
        let emulator = Emulator::with_clock(Clock::system());
        let mut output = BytesMut::new();
        Connection::open(&emulator).receive(format!("TIME\r\n{request}\r\nTIME\r\n").as_bytes(), &mut output);
        let replies = String::from_utf8(output.to_vec()).expect("they are digits and words");
        let (before, after) = replies.split_once("+OK\r\n").expect("the request succeeds");
        (before.to_owned(), after.to_owned())
    }

    #[test]
    fn quick_requests_of_one_batch_share_a_reading_of_the_clock() {
        for request in ["SET k v", "EVAL \"return redis.call('SET', 'k', 'v')\" 0"] {
            let (before, after) = times_around(request);
            assert_eq!(before, after, "{request}");
        }
    }

    #[test]
    fn the_clock_is_read_again_after_a_long_script() {
        let script = "for i = 1, 1000000 do end return redis.status_reply('OK')";
        let (before, after) = times_around(&format!("EVAL \"{script}\" 0"));
        assert_ne!(before, after);
    }
}
