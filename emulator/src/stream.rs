//! An in-memory stream, for clients that take any `AsyncRead + AsyncWrite`. Needs no task and no runtime: a write runs the
//! requests in it, a read takes the replies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Emulator;
use crate::connection::Connection;

/// The client's end of a connection that never leaves the process.
pub struct Stream {
    connection: Connection,
    replies: BytesMut,
    reader: Option<Waker>,
    is_shut: bool,
}

impl Stream {
    pub(crate) fn open(emulator: &Emulator) -> Stream {
        Stream {
            connection: Connection::open(emulator),
            replies: BytesMut::new(),
            reader: None,
            is_shut: false,
        }
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.replies.is_empty() {
            if self.connection.is_closing() || self.is_shut {
                return Poll::Ready(Ok(()));
            }
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let len = self.replies.len().min(buf.remaining());
        buf.put_slice(&self.replies[..len]);
        self.replies.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.connection.is_closing() || self.is_shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let this = &mut *self;
        this.connection.receive(bytes, &mut this.replies);
        this.wake_reader();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut = true;
        self.wake_reader();
        Poll::Ready(Ok(()))
    }
}
