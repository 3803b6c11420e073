//! A listener on its own thread, for code that has no runtime.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{io, thread};

use tokio::runtime;
use tokio::sync::oneshot;

use crate::Server;
use crate::shared::Shared;

/// Listens until it is dropped.
pub struct Background {
    url: String,
    /// The thread ends when this sender is dropped.
    lifeline: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// If there is no free port, or no thread can be started.
    pub fn start(shared: Arc<Shared>) -> io::Result<Background> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("redis://{}/", listener.local_addr()?);
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (lifeline, cut) = oneshot::channel();
        let serve = async move {
            // The socket is bound already; this registers it with the runtime.
            let _server = Server::over(shared, tokio::net::TcpListener::from_std(listener)?)?;
            _ = cut.await;
            io::Result::Ok(())
        };
        let run = move || runtime.block_on(serve).expect("a listener can be registered with a new runtime");
        let thread = thread::Builder::new().name("emulator".into()).spawn(run)?;
        Ok(Background { url, lifeline: Some(lifeline), thread: Some(thread) })
    }

    /// The URL for Redis clients.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.lifeline = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported by the panic hook.
            _ = thread.join();
        }
    }
}
