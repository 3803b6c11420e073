//! Serves clients on sockets. No other file knows sockets.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs, lookup_host};
#[cfg(unix)]
use tokio::net::{UnixSocket, UnixStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::client::Closing;
use crate::connection::{self, Connection, Origin};
use crate::engine::{Engine, Job};
use crate::error;
use crate::reply::Reply;
use crate::resp::{self, Protocol};
use crate::shared::{Shared, Waiting};

/// The bytes of requests that one turn of a connection reads from its socket, before other
/// connections have theirs.
const READ_BYTES: usize = 16 * 1024;

/// The bytes of replies that one turn of a connection makes, and that it writes, before other
/// connections have theirs.
const REPLIES_BYTES_MAX: usize = 256 * 1024;

/// The number of connections that may wait to be accepted (Redis: `tcp-backlog`).
const BACKLOG: u32 = 511;

/// A listening emulator. If it is dropped, it stops listening and closes its connections; the
/// emulator keeps its data.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    accepting: AbortHandle,
}

impl Server {
    pub(crate) async fn bind(shared: Arc<Shared>, addr: impl ToSocketAddrs) -> io::Result<Server> {
        let mut failed = None;
        for addr in lookup_host(addr).await? {
            match listen(addr) {
                Ok(listener) => return Server::over(shared, listener),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
    }

    pub(crate) fn over(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Server> {
        let addr = listener.local_addr()?;
        // A server that listens everywhere is found on its own machine.
        let ip = match addr.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        shared.set_address(&(ip.to_string(), addr.port()));
        let next = move |cx: &mut Context<'_>| {
            let (socket, peer) = ready!(listener.poll_accept(cx))?;
            // Otherwise a small reply waits until the client has acknowledged the one before.
            _ = socket.set_nodelay(true);
            let own = socket.local_addr().map_or_else(|_| String::new(), |own| own.to_string());
            Poll::Ready(Ok((socket, [peer.to_string(), own])))
        };
        let accepting = tokio::spawn(accept(shared, next)).abort_handle();
        Ok(Server { addr, accepting })
    }

    /// The address on which it listens. If port 0 was requested, it has the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for Redis clients: `redis://127.0.0.1:6379/`.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An emulator that listens on a Unix socket. If it is dropped, it closes its connections and
/// removes the socket.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnixServer {
    path: PathBuf,
    /// Device and inode number of the socket's file. When this server ends, another may have
    /// replaced the file.
    file: (u64, u64),
    accepting: AbortHandle,
}

#[cfg(unix)]
impl UnixServer {
    pub(crate) async fn bind(shared: Arc<Shared>, path: &Path, permissions: u32) -> io::Result<UnixServer> {
        remove_dead_socket(path).await?;
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        let listener = restrict(path, permissions).and_then(|file| Ok((file, socket.listen(BACKLOG)?)));
        let (file, listener) = listener.inspect_err(|_| _ = std::fs::remove_file(path))?;
        let address = format!("{}:0", path.display());
        let next = move |cx: &mut Context<'_>| {
            let (socket, _) = ready!(listener.poll_accept(cx))?;
            Poll::Ready(Ok((socket, [address.clone(), address.clone()])))
        };
        let accepting = tokio::spawn(accept(shared, next)).abort_handle();
        Ok(UnixServer { path: path.to_owned(), file, accepting })
    }

    /// The URL for Redis clients: `unix:///tmp/redis.sock`.
    pub fn url(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

#[cfg(unix)]
impl Drop for UnixServer {
    fn drop(&mut self) {
        self.accepting.abort();
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that a killed server has left behind.
///
/// # Errors
/// If a server listens there, or the file is not a socket.
#[cfg(unix)]
async fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let error = |kind, text: &str| Err(io::Error::new(kind, text));
    match std::fs::symlink_metadata(path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(other),
        Ok(file) if !file.file_type().is_socket() => {
            return error(io::ErrorKind::AlreadyExists, "there is a file that is not a socket");
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        // `WouldBlock` means that a server listens, but too many connections wait to be accepted.
        Err(other) if other.kind() != io::ErrorKind::WouldBlock => Err(other),
        _ => error(io::ErrorKind::AddrInUse, "another server listens there"),
    }
}

/// Sets the permissions of a socket. They may be wider between `bind` and `listen`, but then no
/// client can connect.
#[cfg(unix)]
fn restrict(path: &Path, permissions: u32) -> io::Result<(u64, u64)> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions))?;
    identity(path)
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // On Windows this option would allow other programs to listen on the same address.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves the sockets that `next` returns, with the addresses of both ends.
///
/// It owns the connections' tasks: aborting it ends them, too.
async fn accept<S>(
    shared: Arc<Shared>,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, [String; 2])>>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // On a single-threaded runtime no other client could get `-BUSY` or kill the script.
    let may_be_busy = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    let mut connections = JoinSet::new();
    // If the process is out of file descriptors, this one is given up for the client to refuse.
    let mut spare = TcpSocket::new_v4().ok();
    let mut driving = pin!(shared.clone().drive());
    loop {
        tokio::select! {
            accepted = poll_fn(&mut next) => match accepted {
                Ok((socket, addresses)) => {
                    spare = spare.or_else(|| TcpSocket::new_v4().ok());
                    if spare.is_none() {
                        refuse(socket).await;
                        continue;
                    }
                    // Connections are opened in the order in which they came: a password set by one
                    // client does not concern older connections.
                    let origin = Origin { addresses, may_be_busy };
                    let own = shared.clone();
                    let open = |engine: &mut Box<Engine>| Connection::from_afar(own, engine, origin);
                    let opened = submit(&shared, open).await;
                    let shared = shared.clone();
                    connections.spawn(async move {
                        // An error means that the server is gone.
                        if let Ok(connection) = opened.await {
                            serve(shared, connection, socket).await;
                        }
                    });
                }
                Err(_) if spare.take().is_some() => {}
                // Others have taken the spare descriptor: wait until some are free.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            () = &mut driving => {}
        }
    }
}

/// Refuses a client for which there is no file descriptor, as Redis does with more than
/// `maxclients`.
async fn refuse(mut socket: impl AsyncWrite + Unpin) {
    let (refusal, mut output) = (Reply::Error(error::MAX_CLIENTS), BytesMut::new());
    resp::encode(&refusal, Protocol::Resp2, &mut output);
    // An error means that the client is gone.
    _ = socket.write_all(&output).await;
    _ = socket.shutdown().await;
}

/// Serves one client, as [`accept`] does on a single-threaded runtime.
pub(crate) async fn serve_stream(shared: Arc<Shared>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let connection = Connection::over(&shared);
    serve(shared, connection, stream).await;
}

async fn serve(
    shared: Arc<Shared>,
    mut connection: Connection,
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
) {
    let (mut output, mut waiting) = (BytesMut::new(), None);
    loop {
        let exchange = poll_fn(|cx| {
            let (connection, output) = (&mut connection, &mut output);
            Exchange { shared: &shared, connection, socket: &mut socket, output }.poll(&mut waiting, cx)
        });
        match exchange.await {
            Ok(Pause::Fairness) => tokio::task::yield_now().await,
            Ok(Pause::Busy) => match visit(&shared, connection, output).await {
                Some(visited) => (connection, output) = visited,
                None => return,
            },
            // A socket error means that the client is gone.
            Ok(Pause::Closed) | Err(_) => break,
        }
    }
    _ = socket.shutdown().await;
}

/// Why an exchange stops.
enum Pause {
    /// The connection is to be closed.
    Closed,
    /// It has had its turn; other connections may have requests. The replies are written at its
    /// next turn.
    Fairness,
    /// Requests have arrived that only the thread of the script can run.
    Busy,
}

/// Runs the received requests between two steps of the script that keeps the engine. Returns `None`
/// if the server is gone.
async fn visit(
    shared: &Shared,
    mut connection: Connection,
    mut output: BytesMut,
) -> Option<(Connection, BytesMut)> {
    let exchange = move |engine: &mut Box<Engine>| {
        connection.exchange(engine, &[], &mut output, REPLIES_BYTES_MAX);
        (connection, output)
    };
    submit(shared, exchange).await.await.ok()
}

/// Runs `act` when the engine is free, or between two steps of a script that keeps it long. Returns
/// a receiver of the result.
async fn submit<R: Send + 'static>(
    shared: &Shared,
    act: impl FnOnce(&mut Box<Engine>) -> R + Send + 'static,
) -> oneshot::Receiver<R> {
    let (done, is_done) = oneshot::channel();
    let job: Job = Box::new(move |engine| {
        // An error means that the server is gone.
        _ = done.send(act(engine));
    });
    shared.submit(job).await;
    is_done
}

struct Exchange<'a, S> {
    shared: &'a Shared,
    connection: &'a mut Connection,
    socket: &'a mut S,
    output: &'a mut BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Exchange<'_, S> {
    /// Writes and reads without one waiting for the other: a client may send all its requests
    /// before it reads the first reply.
    ///
    /// Only `client-output-buffer-limit` limits the replies that wait to be written.
    fn poll(&mut self, waiting: &mut Waiting, cx: &mut Context<'_>) -> Poll<io::Result<Pause>> {
        let (mut read_bytes, mut written_bytes, mut has_more) = (0, 0, false);
        loop {
            let is_full = self.write(&mut written_bytes, cx)?;
            match self.connection.closing() {
                Closing::Now => return Poll::Ready(Ok(Pause::Closed)),
                Closing::WhenWritten if self.output.is_empty() => return Poll::Ready(Ok(Pause::Closed)),
                Closing::WhenWritten | Closing::No => {}
            }
            if has_more || read_bytes >= READ_BYTES || written_bytes >= REPLIES_BYTES_MAX {
                return Poll::Ready(Ok(Pause::Fairness));
            }
            // On the stack, so that an idle connection needs no memory for it.
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut read = ReadBuf::uninit(&mut space);
            let mut is_drained = false;
            if !self.connection.has_news() {
                is_drained = Pin::new(&mut *self.socket).poll_read(cx, &mut read)?.is_pending();
                if !is_drained && read.filled().is_empty() {
                    if !self.connection.is_held_asleep() {
                        return Poll::Ready(Ok(Pause::Closed));
                    }
                    // A server that sleeps reads nothing. It finds the end of the requests after
                    // its replies to them.
                    is_drained = true;
                }
            }
            read_bytes += read.filled().len();
            let Poll::Ready(mut engine) = self.shared.poll_engine(waiting, cx) else {
                if !read.filled().is_empty() {
                    self.connection.keep(read.filled());
                }
                let is_busy = self.connection.has_news() && self.shared.busy().refusal().is_some();
                return if is_busy { Poll::Ready(Ok(Pause::Busy)) } else { Poll::Pending };
            };
            self.connection.exchange(&mut engine, read.filled(), self.output, REPLIES_BYTES_MAX);
            has_more = self.connection.has_news();
            // A write may wake a client that takes this processor at once. Like Redis, this serves
            // all connections that have requests before it writes to any of them.
            if !self.output.is_empty() && !is_full {
                return Poll::Ready(Ok(Pause::Fairness));
            }
            let is_settled = match self.connection.closing() {
                Closing::No => true,
                Closing::WhenWritten => is_full,
                Closing::Now => false,
            };
            if is_drained && !has_more && is_settled {
                self.connection.wake_with(&mut engine, cx);
                return Poll::Pending;
            }
        }
    }

    /// Writes what the socket takes, up to the limit of one turn.
    ///
    /// Returns whether the socket takes no more for now. Then the task is woken when it takes more.
    fn write(&mut self, written_bytes: &mut usize, cx: &mut Context<'_>) -> io::Result<bool> {
        while !self.output.is_empty() && *written_bytes < REPLIES_BYTES_MAX {
            let Poll::Ready(written) = Pin::new(&mut *self.socket).poll_write(cx, self.output)? else {
                return Ok(true);
            };
            // Bytes that are cleared, and not skipped, give back their room at once.
            match written == self.output.len() {
                true => self.output.clear(),
                false => self.output.advance(written),
            }
            *written_bytes += written;
        }
        connection::give_back(self.output);
        Ok(false)
    }
}
