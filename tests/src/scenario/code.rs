//! The code of clients, as a scenario takes it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::client::Client;
use crate::trace::Ended;

/// The error type of an actor: anything that `?` can turn into an error.
pub type ActorError = Box<dyn std::error::Error + Send + Sync>;

/// Code whose error has a type of its own, for
/// [`Scenario::actors`](crate::Scenario::actors) and the other methods that take code.
///
/// A closure that ends with `Ok(())` does not name the type of its error, so these methods name it:
/// [`ActorError`]. A function names its own.
///
/// ```
/// use harness::{Client, Scenario, from_fn};
///
/// async fn act(client: Client) -> redis::RedisResult<()> {
///     redis::cmd("PING").query_async(&mut client.connection()).await
/// }
///
/// let scenario = Scenario::new("functions").actors(2, from_fn(act));
/// ```
pub fn from_fn<R, E, F, Fut>(
    act: F,
) -> impl Fn(Client) -> Pin<Box<dyn Future<Output = Result<R, ActorError>> + Send>> + Send + Sync + 'static
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    E: Into<ActorError>,
{
    move |client| {
        let running = act(client);
        Box::pin(async move { running.await.map_err(Into::into) })
    }
}

/// An actor's code.
pub(crate) type Act<R> =
    Arc<dyn Fn(Client) -> Pin<Box<dyn Future<Output = Result<R, ActorError>> + Send>> + Send + Sync>;

/// The code of a client that judges the end. It is told how the actors ended.
pub(crate) type Judge = Arc<
    dyn Fn(Client, Arc<Ended>) -> Pin<Box<dyn Future<Output = Result<(), ActorError>> + Send>> + Send + Sync,
>;

pub(crate) fn boxed<R, F, Fut>(act: F) -> Act<R>
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ActorError>> + Send + 'static,
{
    Arc::new(move |client| Box::pin(act(client)))
}
