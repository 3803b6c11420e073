//! Tells a history as a story.

use std::collections::BTreeMap;
use std::time::Duration;

use super::folding::fold;
use super::format::format_time;
use super::story::{ClientState, Detail, DetailKind, Entry, Exchange, KeyState, Message, Sender, Strikes};
use crate::actor::Actor;
use crate::fault::{Delivery, Description, Fault, FaultKind, RequestOutcome, Target};
use crate::oracle::list;
use crate::schedule::Step;
use crate::trace::{Event, EventKind, History, KeyChange, LeftBy, Script, Sent, Struck};

/// Tells the history of `actors` clients up to the step `last_step`. What repeats after the last
/// step is folded.
pub(crate) fn tell(history: &History, actors: usize, last_step: usize) -> Vec<Entry> {
    let mut teller = Teller::new(history, actors);
    history.events.iter().filter(|event| event.step <= last_step).for_each(|event| teller.event(event));
    fold(teller.entries)
}

/// Tells events one after the other.
pub(crate) struct Teller<'a> {
    history: &'a History,
    clients: Vec<ClientState>,
    pub(crate) entries: Vec<Entry>,
    /// The number of steps that are told.
    told: usize,
    /// The call whose first command comes next.
    calling: Option<String>,
    /// The client that is about to send the first command of its release.
    leaving: Option<Actor>,
    /// The replies that are on their way: the client, its connection, and the server.
    replying: Vec<(Actor, usize, usize)>,
    /// Whether the history has several sections. Then the story names the section of a client.
    has_sections: bool,
    /// The clients of which several tasks send requests. Then the story names the task.
    with_tasks: Vec<Actor>,
    /// Whether clients ask several servers. Then the story names the server.
    has_servers: bool,
    /// The last values of keys, by server and key, and when they expire in milliseconds.
    values: BTreeMap<(usize, String), (String, Option<i64>)>,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(history: &'a History, actors: usize) -> Teller<'a> {
        let with_tasks = history.events.iter().filter_map(|event| match &event.kind {
            EventKind::Command { actor, sent, .. } if sent.task > 0 => Some(*actor),
            _ => None,
        });
        let mut servers = history.events.iter().filter_map(|event| server(&event.kind));
        Teller {
            history,
            clients: vec![ClientState::NotYet; actors],
            entries: Vec::new(),
            told: 0,
            calling: None,
            leaving: None,
            replying: Vec::new(),
            has_sections: has_sections(history),
            with_tasks: with_tasks.collect(),
            has_servers: servers.any(|server| server > 0),
            values: BTreeMap::new(),
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.steps_without_events(event.step);
        match &event.kind {
            EventKind::Command { actor, server, text, script, reply, changed, sent, .. } => {
                let to = self.at_server(" to ", *server, "");
                let text = self.history.request_text(text, script.as_ref());
                let name = self.task_name(*actor, sent.task);
                self.act(event, Some(*actor), format!("{name}{to}: {text} → {reply}"));
                self.request(event, *actor, *server, sent);
                script.iter().for_each(|script| self.open_script(script));
                changed.iter().for_each(|change| self.change(*server, change));
                self.left(*actor);
            }
            EventKind::Message { actor, server, text, .. } => {
                self.act(event, Some(*actor), format!("{actor} receives {text}"));
                self.message(*actor, *server, Sender::Server);
            }
            EventKind::Received { actor } => {
                self.received(event, *actor);
            }
            EventKind::Fault { fault, request } => {
                self.fault(event, *fault, request.as_ref());
                self.entries.last_mut().into_iter().for_each(|entry| entry.is_fault = true);
            }
            EventKind::Arrived { actor } => {
                self.act(event, Some(*actor), format!("{actor} is called from outside"));
            }
            EventKind::Started { actor } => {
                self.act(event, Some(*actor), format!("{actor} starts, and has not sent its first command"));
            }
            EventKind::Advanced { by, is_wait } => {
                self.advanced(event, *by, *is_wait);
            }
            EventKind::Called { call: (actor, _), what } => {
                self.called(event, format!("{actor} calls {what}."));
            }
            EventKind::Enter { actor, section, until, .. } => {
                self.entered(event.at, *actor, section, *until);
            }
            EventKind::Extended { actor, until, .. } => {
                let lease = self.grant(*actor, event.at, *until);
                self.remark(format!("{actor} is granted the section once more. {lease}"));
            }
            EventKind::Leave { actor, by, .. } => {
                self.set(*actor, ClientState::Running);
                match by {
                    // The history records this event just before the first command of the release.
                    LeftBy::Release => self.leaving = Some(*actor),
                    LeftBy::Code => {
                        self.remark(format!("{actor} leaves, and no longer counts as a holder."));
                    }
                    LeftBy::Crash => {}
                }
            }
            kind => {
                if let EventKind::Ended { holder: actor, .. }
                | EventKind::Overrun { actor, is_kept: false }
                | EventKind::Lapsed { actor } = kind
                {
                    self.set(*actor, ClientState::Believes);
                }
                sentence(kind).into_iter().for_each(|sentence| self.remark(sentence));
            }
        }
    }

    /// A reply arrives that was late.
    fn received(&mut self, event: &Event, actor: Actor) {
        let step = self.step(event);
        let arrives = |&mut (other, connection, _): &mut _| step == Some(Step::Receive(other, connection));
        let reply = self.replying.extract_if(.., arrives).next();
        self.act(event, Some(actor), format!("{actor} receives the reply"));
        reply.into_iter().for_each(|(_, _, server)| self.message(actor, server, Sender::Server));
    }

    /// Time moves.
    fn advanced(&mut self, event: &Event, by: Duration, is_wait: bool) {
        let why = match self.step(event) {
            _ if is_wait => ": every client waits",
            Some(Step::Advance(_)) => ": every client is slow",
            Some(Step::Wait) => ": a client is slow",
            _ => "",
        };
        self.act(event, None, format!("{} ms pass{why}", by.as_millis()));
    }

    /// A call is told with its first command, which comes after it in the history.
    fn called(&mut self, event: &Event, sentence: String) {
        match self.entries.last() {
            Some(entry) if entry.step == event.step => self.remark(sentence),
            _ => self.calling = Some(sentence),
        }
    }

    /// `A`, or `A.2` for the second of several tasks.
    fn task_name(&self, actor: Actor, task: usize) -> String {
        if self.with_tasks.contains(&actor) { format!("{actor}.{}", task + 1) } else { actor.to_string() }
    }

    /// The step of an event.
    fn step(&self, event: &Event) -> Option<Step> {
        self.history.steps.get(event.step.checked_sub(1)?).copied()
    }

    /// Tells the steps before this one that have no events: a client starts, and has several
    /// requests to send, or sleeps first.
    fn steps_without_events(&mut self, step: usize) {
        for nth in self.told + 1..step {
            if let Some(Step::Run(actor, _)) = self.history.steps.get(nth - 1)
                && self.clients.get(actor.0) == Some(&ClientState::NotYet)
            {
                let at = Duration::from_millis(self.entries.last().map_or(0, |entry| entry.at_ms));
                self.clients[actor.0] = ClientState::Running;
                let text = format!("{actor} starts, and sends nothing yet");
                self.begin(nth, at, Some(*actor), text);
            }
        }
        self.told = self.told.max(step);
    }

    /// The act is a call of this script.
    fn open_script(&mut self, script: &Script) {
        let exchanges = script.commands.iter().cloned();
        if let Some(entry) = self.entries.last_mut() {
            entry.script.extend(exchanges.map(|(command, reply)| Exchange { command, reply }));
        }
    }

    fn change(&mut self, server: usize, change: &KeyChange) {
        let KeyChange { value, left_ms, .. } = change.clone();
        let key = change.name();
        let place = (server, key.clone());
        let at_ms = self.entries.last().map_or(0, |entry| entry.at_ms as i64);
        let last = match &value {
            Some(value) => {
                let expires_ms = left_ms.map(|left_ms| at_ms.saturating_add(left_ms));
                self.values.insert(place, (value.clone(), expires_ms))
            }
            None => self.values.remove(&place),
        };
        let has_expired = |expires_ms: Option<i64>| expires_ms.is_some_and(|expires_ms| expires_ms < at_ms);
        let before = last.and_then(|(value, expires_ms)| (!has_expired(expires_ms)).then_some(value));
        let on = self.at_server(" on ", server, ":");
        self.detail(DetailKind::Change, format!("now{on} {change}"));
        self.name_key(KeyState { server, key, before, value, left_ms });
    }

    /// The name of a server between these words. Nothing if clients ask only one.
    fn at_server(&self, before: &str, server: usize, after: &str) -> String {
        match self.has_servers {
            true => format!("{before}{}{after}", self.history.server(server)),
            false => String::new(),
        }
    }

    /// The act is a request that has run.
    fn request(&mut self, event: &Event, actor: Actor, server: usize, sent: &Sent) {
        let &Sent { connection, is_behind, .. } = sent;
        self.message(actor, server, Sender::Client);
        // Nobody waits for an earlier reply on this connection any more.
        self.replying.retain(|&(other, nth, _)| (other, nth) != (actor, connection));
        match self.step(event) {
            step if is_behind || matches!(step, Some(Step::Send(..))) => {
                self.replying.push((actor, connection, server));
            }
            _ => self.message(actor, server, Sender::Server),
        }
        if let Some(entry) = self.entries.last_mut() {
            entry.replying = self.replying.iter().map(|(actor, ..)| actor.0).collect();
        }
    }

    /// Something moves between a client and a server in this act.
    fn message(&mut self, Actor(client): Actor, server: usize, by: Sender) {
        if client < self.clients.len()
            && let Some(entry) = self.entries.last_mut()
        {
            entry.messages.push(Message { client, server, by, is_lost: false });
        }
    }

    /// A client knows now that it is granted a section. After a late reply, its lease may be over.
    /// Returns the lease in words.
    fn grant(&mut self, actor: Actor, at: Duration, until: Duration) -> String {
        let is_over = at >= until;
        self.set(actor, if is_over { ClientState::Believes } else { ClientState::Inside });
        format!("Its lease {} until {}.", if is_over { "ran" } else { "runs" }, format_time(until))
    }

    fn entered(&mut self, at: Duration, actor: Actor, section: &str, until: Duration) {
        let lease = self.grant(actor, at, until);
        let is_inside = |state| [ClientState::Inside, ClientState::Believes].contains(state);
        let inside = self.clients.iter().enumerate().filter(|(_, state)| is_inside(state));
        let inside: Vec<Actor> = inside.map(|(n, _)| Actor(n)).collect();
        let now =
            if inside.len() > 1 { format!(" Now {} are inside.", list(&inside)) } else { String::new() };
        let section = if self.has_sections { format!(" ({section})") } else { String::new() };
        self.remark(format!("{actor} is inside{section}. {lease}{now}"));
    }

    fn fault(&mut self, event: &Event, fault: Fault, request: Option<&Struck>) {
        let actor = fault.target.actor();
        let delivery = fault.of_request().map(|fault| fault.delivery);
        let request_text = request.map_or(String::new(), |Struck { server, text, script, .. }| {
            let before = if self.history.server_names.is_empty() { " to server " } else { " to " };
            self.history.request_text(text, script.as_ref()) + &self.at_server(before, *server, "")
        });
        match (fault.kind.row().describe)(fault, &request_text) {
            Description::OfClient(what) => {
                self.act(event, actor, what);
                if let (Some(actor), Some(request), Some(Delivery::Never)) = (actor, request, delivery) {
                    let by = if request.is_message { Sender::Server } else { Sender::Client };
                    self.message(actor, request.server, by);
                    self.lose_last();
                }
                actor.into_iter().for_each(|actor| self.left(actor));
            }
            Description::EndOfClient(what) => {
                self.leaving = None;
                self.act(event, actor, what);
                actor.into_iter().for_each(|actor| self.set(actor, ClientState::Gone));
            }
            Description::Outside(what) => {
                self.act(event, None, what);
                if let Some(entry) = self.entries.last_mut() {
                    entry.strikes = strikes(fault.target);
                }
                self.lose_keys(fault);
            }
            Description::Remark(what) => {
                let outcome = fault.of_request().map(|fault| fault.outcome);
                if delivery == Some(Delivery::Now) && outcome != Some(RequestOutcome::Answered) {
                    self.lose_last();
                }
                self.remark(what);
            }
        }
    }

    /// A fault has struck a server. It may have lost keys, or expired them, so no values are known
    /// any more. A restart without data has lost all keys.
    fn lose_keys(&mut self, fault: Fault) {
        let Target::Server(struck) = fault.target else { return };
        let values = std::mem::take(&mut self.values);
        let (lost, kept): (BTreeMap<_, _>, _) =
            values.into_iter().partition(|((server, _), _)| *server == struck);
        self.values = kept;
        let at_ms = self.entries.last().map_or(0, |entry| entry.at_ms as i64);
        for ((server, key), (value, expires_ms)) in lost {
            if fault.kind == FaultKind::Restart && expires_ms.is_none_or(|expires_ms| at_ms <= expires_ms) {
                let on = self.at_server(" on ", server, ":");
                self.detail(DetailKind::Change, format!("now{on} {key} is gone"));
                self.name_key(KeyState { server, key, before: Some(value), value: None, left_ms: None });
            }
        }
    }

    /// The last detail is about this key.
    fn name_key(&mut self, key: KeyState) {
        if let Some(detail) = self.entries.last_mut().and_then(|entry| entry.details.last_mut()) {
            detail.key = Some(key);
        }
    }

    /// The last message of the act never arrives.
    fn lose_last(&mut self) {
        if let Some(message) = self.entries.last_mut().and_then(|entry| entry.messages.last_mut()) {
            message.is_lost = true;
        }
    }

    /// If this was the first command of the actor's release, notes the release.
    fn left(&mut self, actor: Actor) {
        if self.leaving.take_if(|leaving| *leaving == actor).is_some() {
            self.remark(format!("{actor} begins its release, and no longer counts as a holder."));
        }
    }

    fn set(&mut self, actor: Actor, state: ClientState) {
        if let Some(client) = self.clients.get_mut(actor.0) {
            *client = state;
        }
    }

    /// Begins an entry.
    fn act(&mut self, event: &Event, actor: Option<Actor>, text: String) {
        // A probe has no column and takes no step.
        if actor.is_some_and(|actor| actor.0 >= self.clients.len()) {
            return self.detail(DetailKind::Change, text);
        }
        if let Some(Actor(n)) = actor
            && self.clients[n] == ClientState::NotYet
        {
            self.clients[n] = ClientState::Running;
        }
        self.begin(event.step, event.at, actor, text);
    }

    fn begin(&mut self, step: usize, at: Duration, actor: Option<Actor>, text: String) {
        self.entries.push(Entry {
            step,
            at_ms: at.as_millis() as u64,
            actor: actor.map(|actor| actor.0),
            is_fault: false,
            strikes: None,
            text,
            script: Vec::new(),
            messages: Vec::new(),
            clients: self.clients.clone(),
            replying: self.replying.iter().map(|(actor, ..)| actor.0).collect(),
            details: Vec::new(),
        });
        self.calling.take().into_iter().for_each(|sentence| self.remark(sentence));
    }

    fn remark(&mut self, sentence: String) {
        self.detail(DetailKind::Remark, sentence);
    }

    /// Adds a detail to the last entry.
    fn detail(&mut self, kind: DetailKind, text: String) {
        if self.entries.is_empty() {
            self.begin(0, Duration::ZERO, None, String::new());
        }
        let entry = self.entries.last_mut().expect("there is one");
        entry.details.push(Detail { kind, text, clients: self.clients.clone(), key: None });
    }
}

/// The sentence on an event that is no act.
fn sentence(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Accepted { actor, resource, token, .. } => {
            format!("{resource} accepts {actor}'s write with token {token}.")
        }
        EventKind::Did { actor, what, .. } => format!("{actor} does «{what}»."),
        EventKind::Returned { call: (actor, _), what, answer } => {
            format!("{actor} has the answer to {what}: {answer}.")
        }
        EventKind::Late { actor } => format!("This request comes late: {actor} has given it up."),
        EventKind::Ended { holder, by } => {
            format!("With this, {by} has ended the grant of {holder}, whose lease still runs.")
        }
        EventKind::Shortened { holder, by } => {
            format!("With this, {by} has shortened the grant of {holder}: it ends before the lease.")
        }
        EventKind::Overrun { actor, is_kept: false } => {
            format!("The lease of {actor} is over, and {actor} is still inside.")
        }
        EventKind::Overrun { actor, is_kept: true } => {
            format!(
                "The lease of {actor} is over, and {actor} is still inside. The server still keeps its grant."
            )
        }
        EventKind::Lapsed { actor } => {
            format!("The server no longer keeps the grant of {actor}, and {actor} is still inside.")
        }
        EventKind::Broken { name, what } => format!("This breaks «{name}»: {}.", what.trim_end_matches('.')),
        EventKind::Judged { judge, violation } => {
            let what = violation.as_deref()?.trim_end_matches('.');
            format!("No client runs any more. A fresh client, {judge}, judges the end: {what}.")
        }
        EventKind::Probed { granted, wanted, after } => {
            let when = match after {
                Some(after) => format!("No client runs any more, and {} ms have passed.", after.as_millis()),
                None => "All clients have ended, none crashed, and no message was lost.".into(),
            };
            format!("{when} Fresh clients try: {granted} of {wanted} succeed.")
        }
        EventKind::Failed { actor, error } => format!("{actor} failed: {error}"),
        EventKind::SubscriptionEnded { actor, channel } => {
            format!("{actor} receives no more messages of {channel}: the connection has broken.")
        }
        EventKind::GaveUp { actor, error } => format!("{actor} gives up: {error}"),
        EventKind::Endless { actor, limit } => format!("{actor} does not come to its end: {limit}."),
        EventKind::Stuck { actor } => format!("{actor} waits for something that never comes."),
        EventKind::Command { .. }
        | EventKind::Message { .. }
        | EventKind::Received { .. }
        | EventKind::Fault { .. }
        | EventKind::Arrived { .. }
        | EventKind::AllEnded
        | EventKind::Called { .. }
        | EventKind::Started { .. }
        | EventKind::Advanced { .. }
        | EventKind::Enter { .. }
        | EventKind::Extended { .. }
        | EventKind::Leave { .. }
        | EventKind::RetriesEnded { .. } => return None,
    })
}

/// The lane that a fault from outside strikes.
fn strikes(target: Target) -> Option<Strikes> {
    match target {
        Target::Client(Actor(client)) => Some(Strikes::Client(client)),
        Target::Server(server) => Some(Strikes::Server(server)),
        Target::Connection(..) => None,
    }
}

/// The server of a request or of a message.
fn server(kind: &EventKind) -> Option<usize> {
    match kind {
        EventKind::Command { server, .. }
        | EventKind::Message { server, .. }
        | EventKind::Fault { request: Some(Struck { server, .. }), .. } => Some(*server),
        _ => None,
    }
}

fn has_sections(history: &History) -> bool {
    let mut entered = history.events.iter().filter_map(|event| match event.kind {
        EventKind::Enter { section, .. } => Some(section),
        _ => None,
    });
    let first = entered.next();
    entered.any(|section| Some(section) != first)
}
