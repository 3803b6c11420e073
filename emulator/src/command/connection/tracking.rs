//! Client-side caching: CLIENT TRACKING and related commands.
//! <https://redis.io/docs/latest/develop/reference/client-side-caching/>

use bytes::Bytes;

use super::super::{Argv, Ctx, Flag, Outcome, Row, integer, is_word};
use crate::client::{CallContext, Client, Tracking};
use crate::engine::Engine;
use crate::error::{self, Error};
use crate::reply::Reply;

/// Called after a command. If it only reads, the client gets a message when one of its keys
/// changes. If a script has called it, these are the keys that the script has declared.
pub(in crate::command) fn remember(engine: &mut Engine, client: &Client, row: &Row, argv: &Argv<'_>) {
    let Some(tracking) = &client.tracking else { return };
    let is_script = row.has(Flag::SkipMonitor);
    if !row.has(Flag::ReadOnly)
        || is_script
        || tracking.is_broadcast
        || tracking.opt_in && !tracking.is_caching
        || tracking.opt_out && tracking.is_caching
    {
        return;
    }
    if client.context == CallContext::InScript {
        return tracking.declared.iter().for_each(|key| engine.tracker.remember(client.slot, key));
    }
    for idx in row.keys.iter().flat_map(|spec| spec.positions(argv)) {
        engine.tracker.remember(client.slot, argv[idx]);
    }
}

/// `CLIENT CACHING <YES | NO>`
pub(super) fn caching(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let tracking = ctx.client.tracking.as_mut().ok_or(error::CACHING_MODE)?;
    match argv[2] {
        word if is_word(word, "yes") && tracking.opt_in => {}
        word if is_word(word, "yes") => return Err(error::CACHING_YES),
        word if is_word(word, "no") && tracking.opt_out => {}
        word if is_word(word, "no") => return Err(error::CACHING_NO),
        _ => return Err(error::SYNTAX),
    }
    tracking.is_caching = true;
    Ok(Reply::OK)
}

/// `CLIENT GETREDIR`: -1 without tracking, 0 without redirection
pub(super) fn getredir(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Integer(redirect(ctx.client)))
}

fn redirect(client: &Client) -> i64 {
    client.tracking.as_ref().map_or(-1, |tracking| tracking.redirect.map_or(0, |id| id as i64))
}

/// `CLIENT TRACKINGINFO`
pub(super) fn trackinginfo(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let mut flags = Vec::new();
    match &ctx.client.tracking {
        None => flags.push("off"),
        Some(tracking) => {
            flags.push("on");
            flags.extend(tracking.is_broadcast.then_some("bcast"));
            flags.extend(tracking.opt_in.then_some("optin"));
            flags.extend((tracking.opt_in && tracking.is_caching).then_some("caching-yes"));
            flags.extend(tracking.opt_out.then_some("optout"));
            flags.extend((tracking.opt_out && tracking.is_caching).then_some("caching-no"));
            flags.extend(tracking.no_loop.then_some("noloop"));
            let is_broken = tracking
                .redirect
                .is_some_and(|id| id != ctx.client.id && ctx.engine.clients.by_id(id).is_none());
            flags.extend(is_broken.then_some("broken_redirect"));
        }
    }
    let prefixes = ctx.client.tracking.iter().flat_map(|tracking| &tracking.prefixes);
    Ok(Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags.into_iter().map(Reply::bulk).collect())),
        (Reply::bulk("redirect"), Reply::Integer(redirect(ctx.client))),
        (Reply::bulk("prefixes"), Reply::Array(prefixes.cloned().map(Reply::Bulk).collect())),
    ]))
}

/// `CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST]
/// [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) fn tracking(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut wanted = Tracking::default();
    let mut options = &argv[3..];
    while let Some((option, rest)) = options.split_first() {
        options = rest;
        match (option, rest) {
            (word, [id, rest @ ..]) if is_word(word, "redirect") => {
                if wanted.redirect.is_some() {
                    return Err(error::TRACKING_ONE_REDIRECT);
                }
                let id = integer(id)?;
                let id = u64::try_from(id)
                    .ok()
                    .filter(|&id| id == ctx.client.id || ctx.engine.clients.by_id(id).is_some());
                wanted.redirect = Some(id.ok_or(error::TRACKING_REDIRECT)?);
                options = rest;
            }
            (word, [prefix, rest @ ..]) if is_word(word, "prefix") => {
                wanted.prefixes.push(Bytes::copy_from_slice(prefix));
                options = rest;
            }
            (word, _) if is_word(word, "bcast") => wanted.is_broadcast = true,
            (word, _) if is_word(word, "optin") => wanted.opt_in = true,
            (word, _) if is_word(word, "optout") => wanted.opt_out = true,
            (word, _) if is_word(word, "noloop") => wanted.no_loop = true,
            _ => return Err(error::SYNTAX),
        }
    }
    ctx.engine.concern_all();
    match argv[2] {
        word if is_word(word, "on") => begin(ctx, wanted)?,
        word if is_word(word, "off") => {
            ctx.client.tracking = None;
            ctx.engine.tracker.forget(ctx.client.slot);
        }
        _ => return Err(error::SYNTAX),
    }
    Ok(Reply::OK)
}

fn begin(ctx: &mut Ctx<'_>, mut wanted: Tracking) -> Result<(), Error> {
    if !wanted.is_broadcast && !wanted.prefixes.is_empty() {
        return Err(error::TRACKING_PREFIX);
    }
    if let Some(tracking) = &ctx.client.tracking
        && tracking.is_broadcast != wanted.is_broadcast
    {
        return Err(error::TRACKING_BCAST_SWITCH);
    }
    if wanted.is_broadcast && (wanted.opt_in || wanted.opt_out) {
        return Err(error::TRACKING_BCAST_OPT);
    }
    if wanted.opt_in && wanted.opt_out {
        return Err(error::TRACKING_OPTS);
    }
    if let Some(tracking) = &ctx.client.tracking
        && (wanted.opt_in && tracking.opt_out || wanted.opt_out && tracking.opt_in)
    {
        return Err(error::TRACKING_OPT_SWITCH);
    }
    if wanted.is_broadcast {
        let before = ctx.client.tracking.iter().flat_map(|tracking| tracking.prefixes.iter().cloned());
        let before: Vec<Bytes> = before.collect();
        check_prefixes(&before, &wanted.prefixes)?;
        if wanted.prefixes.is_empty() {
            wanted.prefixes.push(Bytes::new());
        }
        wanted.prefixes.extend(before);
        for prefix in &wanted.prefixes {
            ctx.engine.tracker.want(ctx.client.slot, prefix);
        }
    }
    ctx.engine.tracker.enrol(ctx.client.slot);
    ctx.client.tracking = Some(wanted);
    Ok(())
}

/// Checks that no prefix of a client begins with another one.
fn check_prefixes(before: &[Bytes], new: &[Bytes]) -> Result<(), Error> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (idx, prefix) in new.iter().enumerate() {
        if let Some(other) = before.iter().find(|other| overlap(prefix, other)) {
            return Err(error::prefixes_overlap(prefix, "an existing", other));
        }
        if let Some(other) = new[idx + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(error::prefixes_overlap(prefix, "another provided", other));
        }
    }
    Ok(())
}
