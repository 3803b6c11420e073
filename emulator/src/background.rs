//! A listener that its emulator owns: on a thread for code that has no runtime, or on a runtime
//! whose clock no other thread sees.

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
    _serving: Serving,
}

enum Serving {
    Here { _server: Server },
    OnThread { _thread: Thread },
}

struct Thread {
    /// The thread ends when this sender is dropped.
    lifeline: Option<oneshot::Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl Background {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// If there is no free port, or no thread can be started.
    pub fn start(shared: Arc<Shared>) -> io::Result<Background> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let url = format!("redis://{addr}/");
        // The thread of the listener may begin later than the next command of the caller.
        shared.set_address(&(addr.ip().to_string(), addr.port()));
        let is_served_here = shared.engine().clock().is_of_this_runtime();
        let serving = match is_served_here {
            true => Serving::Here { _server: serve(shared, listener)? },
            false => Serving::OnThread { _thread: Thread::start(shared, listener)? },
        };
        Ok(Background { url, _serving: serving })
    }

    /// The URL for Redis clients.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Thread {
    fn start(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Thread> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (lifeline, cut) = oneshot::channel();
        let until_cut = async move {
            let _server = serve(shared, listener)?;
            _ = cut.await;
            io::Result::Ok(())
        };
        let run =
            move || runtime.block_on(until_cut).expect("a listener can be registered with a new runtime");
        let handle = thread::Builder::new().name("emulator".into()).spawn(run)?;
        Ok(Thread { lifeline: Some(lifeline), handle: Some(handle) })
    }
}

/// Serves a bound socket on the current runtime.
fn serve(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Server> {
    Server::over(shared, tokio::net::TcpListener::from_std(listener)?)
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.lifeline = None;
        if let Some(handle) = self.handle.take() {
            // A panic of the thread has already been reported by the panic hook.
            _ = handle.join();
        }
    }
}
