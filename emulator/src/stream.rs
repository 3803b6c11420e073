//! An in-memory stream, for clients that take any `AsyncRead + AsyncWrite`.
//!
//! It needs no task and no runtime: a write runs the requests in it, and a read takes the replies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::{self, Connection};
use crate::shared::Shared;

/// The client's end of a connection inside the process.
pub struct Stream {
    connection: Connection,
    replies: BytesMut,
    reader: Option<Waker>,
    /// While a reader waits, this runs what is due by the server's clock.
    driving: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    is_shut: bool,
}

impl Stream {
    pub(crate) fn over(shared: &Arc<Shared>) -> Stream {
        Stream {
            connection: Connection::over(shared),
            replies: BytesMut::new(),
            reader: None,
            driving: None,
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
        let this = &mut *self;
        if this.replies.is_empty() && !this.is_shut {
            this.reader = Some(cx.waker().clone());
            let driving = this.driving.get_or_insert_with(|| this.connection.drive());
            _ = driving.as_mut().poll(cx);
            ready!(this.connection.poll_messages(cx, &mut this.replies));
        }
        this.driving = None;
        let len = this.replies.len().min(buf.remaining());
        buf.put_slice(&this.replies[..len]);
        this.replies.advance(len);
        connection::give_back(&mut this.replies);
        this.connection.note_unwritten(this.replies.len());
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
        this.connection.note_unwritten(this.replies.len());
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
