//! Messages that a server sends between its replies, over RESP3: a key that the client tracks has
//! changed. Replies and messages arrive in the order in which the server wrote them.

use redis::Value;

use super::gate::Gate;
use super::{Recording, Simulation};
use crate::live::{Told, Traffic, encode};
use crate::render::{Format, brief};
use crate::trace::EventKind;

impl Simulation {
    /// Fetches what a server has sent between its replies.
    pub(super) fn fetch_pushes(&mut self, server: usize) {
        let world = &mut self.world;
        for nth in 0..world.gates.len() {
            let gate = &world.gates[nth];
            let has_ended = gate.pushes.back().is_some_and(Option::is_none);
            let Gate { actor, traffic: Traffic::Pushes, session: Some(session), .. } = gate else { continue };
            if gate.server != server || has_ended {
                continue;
            }
            let (actor, pushes) = (*actor, session.take_pushes());
            if !pushes.is_empty() {
                world.gates[nth].pushes.extend(pushes);
                world.note_activity();
                world.recorder.requests_changed(actor);
            }
        }
    }

    /// The next message of the server arrives that is no reply.
    pub(super) fn receive_push(&mut self, gate: usize) {
        let at = &mut self.world.gates[gate];
        let Some(mut push) = at.pushes.pop_front() else { return };
        at.n_before_reply = at.n_before_reply.saturating_sub(1);
        let Gate { actor, nth, server, .. } = *at;
        let gate_state = at.gate_state.clone();
        if self.world.lose(actor, server).is_some() {
            self.reopen(gate);
            push = None;
        }
        self.world.change_gate(gate, gate_state);
        if push.is_none() {
            self.world.note_fault_error(actor);
        }
        if self.recording == Recording::Full {
            let (text, brief) = describe(push.as_ref());
            self.world.record(EventKind::Message { actor, server, text, brief });
        }
        let message = push.as_ref().map(encode);
        self.tell(actor, &Told::Heard { nth, message });
    }
}

/// A message, in full and in brief.
fn describe(push: Option<&Value>) -> (String, String) {
    let Some(Value::Push { kind, data }) = push else {
        return ("the end of its connection".into(), "end".into());
    };
    let key = match &data[..] {
        [Value::Array(keys)] => keys.first(),
        _ => data.first(),
    };
    let key = key.and_then(|key| if let Value::BulkString(key) = key { Some(key.clone()) } else { None });
    let shown = data.iter().map(Format::show).collect::<Vec<_>>().join(", ");
    (format!("{kind}: {shown}"), brief(&kind.to_string(), key))
}

#[cfg(test)]
mod tests {
    use redis::PushKind;

    use super::*;

    /// Of a message about several keys, the first key is enough to tell steps apart.
    #[test]
    fn messages_are_described_in_full_and_in_brief() {
        let described = |kind, data: &[Value]| describe(Some(&Value::Push { kind, data: data.to_vec() }));
        let [a, b] = ["a", "b"].map(|key| Value::BulkString(key.into()));
        let texts = |full: &str, brief: &str| (full.to_owned(), brief.to_owned());
        let keys = Value::Array(vec![a.clone(), b.clone()]);
        assert_eq!(
            described(PushKind::Invalidate, &[keys]),
            texts(r#"invalidate: ["a", "b"]"#, "invalidate a")
        );
        assert_eq!(described(PushKind::Message, &[b, a]), texts(r#"message: "b", "a""#, "message b"));
        assert_eq!(described(PushKind::Invalidate, &[Value::Nil]), texts("invalidate: (nil)", "invalidate"));
        assert_eq!(describe(None), texts("the end of its connection", "end"));
    }
}
