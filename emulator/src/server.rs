//! Sockets: the only file that knows them.

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::{AbortHandle, JoinSet};

use crate::Emulator;
use crate::connection::Connection;

/// How much is read from a socket at once, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// A listening emulator. Dropping it stops listening and closes its connections; the data stays with the emulator.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    accepting: AbortHandle,
}

impl Server {
    pub(crate) async fn bind(emulator: Emulator, addr: impl ToSocketAddrs) -> io::Result<Server> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let accepting = tokio::spawn(accept(emulator, listener)).abort_handle();
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

/// Owns the connections' tasks: aborting this one ends them too.
async fn accept(emulator: Emulator, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => _ = connections.spawn(serve(Connection::open(&emulator), socket)),
                // Out of descriptors, most often: those that close make room.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut connection: Connection, mut socket: TcpStream) {
    // Without this, small replies wait for the client's acknowledgement of the one before.
    _ = socket.set_nodelay(true);
    let (mut input, mut output) = (BytesMut::with_capacity(READ_BYTES), BytesMut::new());
    loop {
        input.clear();
        match socket.read_buf(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => connection.receive(&input, &mut output),
        }
        if socket.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
        if connection.is_closing() {
            _ = socket.shutdown().await;
            return;
        }
    }
}
