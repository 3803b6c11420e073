//! Sentinel: it watches primaries, lets a replica take over if one is down, and tells clients where
//! the primary is. <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>
//!
//! The module decides, and does nothing: it gets the answers of the other servers and returns
//! [`Deed`]s. `shared.rs` asks the servers, and `engine/sentinel.rs` publishes events and gives
//! orders. A failover takes no time. Where Redis waits before it decides, the Sentinel's clock must
//! pass the same time: `down-after-milliseconds` before a server counts as down, four times
//! `PUBLISH-PERIOD` (8 s) before an old primary is made a replica.

mod settings;
mod instance;
mod outside;
mod primary;
mod failover;
mod state;
mod look;

pub use instance::Instance;
pub use outside::{Deed, Survey};
pub use primary::{Companion, Primary};
pub use settings::{OPTIONS, Settings};
pub use state::{NotWatched, Refusal, Sentinel};
