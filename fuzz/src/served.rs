//! Clients of `server.rs` at simulated sockets. An input decides how many bytes a socket reads or
//! writes at a time, when it is not ready, and when it fails. Nothing else decides what happens. A
//! task is polled only after it was woken, so a lost wake-up shows as a missing reply.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use emulator::Emulator;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// With a choice up to this one, the socket is not ready.
const NOT_READY_MAX: u8 = 32;
/// With this choice, the socket fails, and all later reads and writes fail as well.
const FAILS: u8 = 255;
/// How many bytes pass through the socket for a choice between `NOT_READY_MAX` and `FAILS`.
const LENGTHS: [usize; 8] = [1, 2, 3, 7, 30, 200, 5_000, 100_000];
/// The most polls of one task until it must wait.
const POLLS_MAX: usize = 1_000_000;

/// The client's end of a socket, and the task that serves the other end.
pub struct Served {
    pipe: Arc<Mutex<Pipe>>,
    /// `None` after the task has ended.
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Pipe {
    /// Bytes that the client has sent and the server has not read.
    requests: Vec<u8>,
    /// The client has closed its sending side.
    is_ended: bool,
    replies: Vec<u8>,
    choices: Vec<u8>,
    next_choice_idx: usize,
    has_failed: bool,
    reader: Option<Waker>,
}

struct Socket(Arc<Mutex<Pipe>>);

impl Served {
    /// A client that has just connected. A socket without choices is always ready.
    pub fn open(emulator: &Emulator, choices: &[u8]) -> Served {
        let pipe = Arc::new(Mutex::new(Pipe { choices: choices.to_vec(), ..Pipe::default() }));
        let task = Box::pin(emulator.serve_stream(Socket(pipe.clone())));
        let mut served = Served { pipe, task: Some(task), is_woken: Arc::new(Woken(AtomicBool::new(true))) };
        served.proceed();
        served
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let mut pipe = self.pipe();
        pipe.requests.extend_from_slice(bytes);
        let reader = pipe.reader.take();
        drop(pipe);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Polls the task until it waits. Returns whether the task ran.
    pub fn proceed(&mut self) -> bool {
        let waker = Waker::from(self.is_woken.clone());
        for n_polls in 0..POLLS_MAX {
            let is_woken = self.is_woken.0.swap(false, Ordering::Relaxed);
            let Some(task) = self.task.as_mut().filter(|_| is_woken) else { return n_polls > 0 };
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.task = None;
            }
        }
        panic!("a connection that is never at rest");
    }

    /// The bytes that the client received, whether the server closed the connection, and whether
    /// the socket failed. A server that may sleep may notice the end of the client later.
    pub fn end(mut self, may_sleep: bool) -> (Vec<u8>, bool, bool) {
        let is_closed = self.task.is_none();
        self.pipe().is_ended = true;
        self.send(b"");
        self.proceed();
        assert!(self.task.is_none() || may_sleep, "the client has gone, and the connection stays");
        let mut pipe = self.pipe();
        (std::mem::take(&mut pipe.replies), is_closed, pipe.has_failed)
    }

    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        lock(&self.pipe)
    }
}

impl Pipe {
    /// How many bytes pass through the socket now. 0 means that it is not ready yet.
    fn choose(&mut self) -> io::Result<usize> {
        let choice = self.choices.get(self.next_choice_idx).copied();
        self.next_choice_idx += 1;
        self.has_failed |= choice == Some(FAILS);
        match choice {
            _ if self.has_failed => Err(io::ErrorKind::ConnectionReset.into()),
            None => Ok(usize::MAX),
            Some(..=NOT_READY_MAX) => Ok(0),
            Some(choice) => Ok(LENGTHS[usize::from(choice) % LENGTHS.len()]),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.0);
        if pipe.requests.is_empty() && !pipe.is_ended {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let len = pipe.choose()?;
        if len == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let len = len.min(pipe.requests.len()).min(buf.remaining());
        buf.put_slice(&pipe.requests[..len]);
        pipe.requests.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.0);
        let len = pipe.choose()?;
        if len == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let len = len.min(bytes.len());
        pipe.replies.extend_from_slice(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}
