//! The calls of clients that run without a schedule.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::model::Operation;

/// Records the calls of clients and their answers while they run.
#[derive(Debug)]
pub struct Log<C, A>(Mutex<(u64, Vec<Operation<C, A>>)>);

impl<C, A: Clone> Log<C, A> {
    /// An empty log.
    pub fn new() -> Log<C, A> {
        Log(Mutex::new((0, Vec::new())))
    }

    /// Records a call that lasts as long as this future. If the future is dropped, the call has no
    /// answer.
    pub async fn call(&self, client: usize, call: C, answer: impl Future<Output = A>) -> A {
        let place = {
            let (clock, operations) = &mut *self.lock();
            *clock += 1;
            operations.push(Operation { client, call, called_at: *clock, answer: None });
            operations.len() - 1
        };
        let answer = answer.await;
        let (clock, operations) = &mut *self.lock();
        *clock += 1;
        operations[place].answer = Some((answer.clone(), *clock));
        answer
    }

    /// The recorded operations.
    pub fn into_operations(self) -> Vec<Operation<C, A>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Operation<C, A>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C, A: Clone> Default for Log<C, A> {
    fn default() -> Log<C, A> {
        Log::new()
    }
}
