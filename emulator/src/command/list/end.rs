//! The two ends of a list.

use bytes::Bytes;

use super::super::Argv;
use crate::keyspace::{Class, Edit, List};
use crate::reply::Reply;

/// An end of a list. Commands call the head left.
#[derive(Clone, Copy)]
pub(super) enum End {
    Head,
    Tail,
}

impl End {
    pub(super) fn push(self, list: &mut List, element: &[u8]) {
        match self {
            End::Head => list.push_front(element),
            End::Tail => list.push_back(element),
        }
    }

    /// Takes up to this many elements from this end.
    pub(super) fn take(self, list: &mut List, count: usize) -> Vec<Bytes> {
        let (len, count) = (list.len(), count.min(list.len()));
        let places = match self {
            End::Head => 0..count,
            End::Tail => len - count..len,
        };
        let mut taken: Vec<Bytes> = Vec::with_capacity(count);
        taken.extend(list.range(places.clone()).map(Bytes::copy_from_slice));
        if let End::Tail = self {
            taken.reverse();
        }
        list.remove(places);
        taken
    }

    pub(super) fn peek(self, list: &List) -> Option<&[u8]> {
        match self {
            End::Head => list.get(0),
            End::Tail => list.get(list.len().checked_sub(1)?),
        }
    }

    /// The name of the event for pushed elements.
    pub(super) fn pushed(self) -> &'static str {
        match self {
            End::Head => "lpush",
            End::Tail => "rpush",
        }
    }

    /// The name of the event for popped elements.
    pub(super) fn popped(self) -> &'static str {
        match self {
            End::Head => "lpop",
            End::Tail => "rpop",
        }
    }
}

pub(super) fn push_all(mut edit: Edit<'_, List>, elements: &Argv<'_>, end: End) -> Reply {
    let list = edit.write();
    for element in elements {
        end.push(list, element);
    }
    let len = list.len();
    edit.notify(Class::List, end.pushed());
    Reply::count(len)
}
