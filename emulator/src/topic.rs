//! The three kinds of subscriptions.

/// The kind of name in a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `SUBSCRIBE`
    Channel,
    /// `PSUBSCRIBE`
    Pattern,
    /// `SSUBSCRIBE`
    ShardChannel,
}

impl Topic {
    /// All kinds, in the order in which clients keep them.
    pub const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::ShardChannel];
}
