//! Lock keys that are made by one command, and get their time to live by another one.

use super::habit::Lint;
use super::usage::Usage;

pub(super) const LINT: Lint = Lint {
    name: "setnx-then-expire",
    summary: "One command makes the lock key, and another one sets its time to live.",
    advice: "If the client crashes between them, the key stays for ever: use one command, SET key token NX PX ms.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.calls.iter().enumerate().find_map(|(nth, made)| {
        let setnx = made.args_of(&["SETNX"]).filter(|_| made.reply == "1");
        let set_nx = made.args_of(&["SET"]).filter(|_| made.reply == "OK" && made.has_option(&["NX"]));
        let args = setnx.or(set_nx.filter(|_| !made.has_option(&["EX", "PX", "EXAT", "PXAT"])))?;
        let later = usage.calls[nth + 1..].iter().filter(|call| call.actor == made.actor);
        let ended = later.into_iter().find(|call| {
            let expire = call.args_of(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]);
            expire.is_some_and(|expire| call.server == made.server && expire.first() == args.first())
        })?;
        Some(format!("{} Then {}", made.said(), ended.said()))
    })
}
