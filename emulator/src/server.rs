//! Sockets: the only file that knows them.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::unix::fs::FileTypeExt as _;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::task::{AbortHandle, JoinSet};

use crate::Shared;
use crate::connection::Connection;

/// How much is read from a socket at once, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// How much memory a connection keeps for its next replies, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A listening emulator. Dropping it stops listening and closes its connections; the data stays with the emulator.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    accepting: AbortHandle,
}

impl Server {
    pub(crate) async fn bind(shared: Arc<Shared>, addr: impl ToSocketAddrs) -> io::Result<Server> {
        Server::over(shared, TcpListener::bind(addr).await?)
    }

    pub(crate) fn over(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Server> {
        let addr = listener.local_addr()?;
        let next = move |cx: &mut Context<'_>| {
            let (socket, peer) = ready!(listener.poll_accept(cx))?;
            // Without this, small replies wait for the client's acknowledgement of the one before.
            _ = socket.set_nodelay(true);
            let own = socket.local_addr().map_or_else(|_| String::new(), |own| own.to_string());
            Poll::Ready(Ok((socket, [peer.to_string(), own])))
        };
        let accepting = tokio::spawn(accept(shared, next)).abort_handle();
        Ok(Server { addr, accepting })
    }

    /// Where it listens; the real port if 0 was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What a Redis client is to connect to: `redis://127.0.0.1:6379/`.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An emulator that listens on a Unix socket. Dropping it closes its connections and removes the socket.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnixServer {
    path: PathBuf,
    accepting: AbortHandle,
}

#[cfg(unix)]
impl UnixServer {
    pub(crate) fn bind(shared: Arc<Shared>, path: &Path) -> io::Result<UnixServer> {
        // What a server that was killed has left behind; as Redis does.
        if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let address = format!("{}:0", path.display());
        let next = move |cx: &mut Context<'_>| {
            let (socket, _) = ready!(listener.poll_accept(cx))?;
            Poll::Ready(Ok((socket, [address.clone(), address.clone()])))
        };
        let accepting = tokio::spawn(accept(shared, next)).abort_handle();
        Ok(UnixServer { path: path.to_owned(), accepting })
    }

    /// What a Redis client is to connect to: `unix:///tmp/redis.sock`.
    pub fn url(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

#[cfg(unix)]
impl Drop for UnixServer {
    fn drop(&mut self) {
        self.accepting.abort();
        _ = std::fs::remove_file(&self.path);
    }
}

/// Serves the sockets that `next` gives, with the addresses of both ends. Owns the connections' tasks: aborting this one ends them
/// too.
async fn accept<S>(
    shared: Arc<Shared>,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, [String; 2])>>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut driving = pin!(shared.clone().drive());
    loop {
        tokio::select! {
            accepted = poll_fn(&mut next) => match accepted {
                Ok((socket, addresses)) => {
                    let connection = Connection::over(shared.clone());
                    connection.set_addresses(addresses);
                    connections.spawn(serve(connection, socket));
                }
                // Out of descriptors, most often: those that close make room.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            () = &mut driving => {}
        }
    }
}

async fn serve(mut connection: Connection, mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let mut output = BytesMut::new();
    // An error is the client's affair: it has gone.
    _ = poll_fn(|cx| exchange(&mut connection, &mut socket, &mut output, cx)).await;
    _ = socket.shutdown().await;
}

/// Writes what there is to say, and reads on once all is written: a client that does not read is not read from. Ready when the
/// connection is to be closed.
fn exchange(
    connection: &mut Connection,
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    output: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        while !output.is_empty() {
            match Pin::new(&mut *socket).poll_write(cx, output)? {
                Poll::Ready(written) if written == output.len() => output.clear(),
                Poll::Ready(written) => output.advance(written),
                Poll::Pending => {
                    // Killed while it does not read.
                    ready!(connection.poll_killed(cx));
                    return Poll::Ready(Ok(()));
                }
            }
        }
        if output.capacity() > KEPT_BYTES_MAX {
            *output = BytesMut::new();
        }
        if connection.is_closing() {
            return Poll::Ready(Ok(()));
        }
        if connection.is_behind() {
            connection.receive_some(&[], output);
            if !output.is_empty() {
                continue;
            }
        }
        // On the stack: a connection that is idle needs no memory for what it does not send.
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut read = ReadBuf::uninit(&mut space);
        if let Poll::Ready(()) = Pin::new(&mut *socket).poll_read(cx, &mut read)? {
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            connection.receive_some(read.filled(), output);
        } else {
            ready!(connection.poll_messages(cx, output));
        }
    }
}
