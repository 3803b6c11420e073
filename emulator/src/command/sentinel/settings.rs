//! `SENTINEL SET`, `SENTINEL CONFIG` and `SENTINEL DEBUG`.

use std::time::Duration;

use super::super::{Argv, Ctx, Outcome, is_word};
use super::context::{NO_SUCH_MASTER, done, invalid, state, unknown_option};
use crate::error::Error;
use crate::glob;
use crate::reply::Reply;
use crate::sentinel::{OPTIONS, Settings};

/// `SENTINEL SET master-name option value [option value ...]`
///
/// The options before a wrong one are set.
pub(super) fn set(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let primary = state(ctx).0.primary_mut(argv[2]).ok_or(NO_SUCH_MASTER)?;
    let (mut deeds, mut error) = (Vec::new(), None);
    let mut options = &argv[3..];
    while let Some((name, rest)) = options.split_first() {
        let change = set_option(&mut primary.settings, name, rest);
        let (shown, rest) = match change {
            Ok(change) => change,
            Err(refusal) => {
                error = Some(refusal);
                break;
            }
        };
        let name = String::from_utf8_lossy(name).into_owned();
        deeds.push(primary.event("+set", &format!(" {name} {shown}")));
        options = rest;
    }
    let reply = error.map_or(Reply::OK, Reply::Error);
    Ok(done(ctx, deeds, reply))
}

/// Sets one option. Returns how its event shows the value, and the arguments after it.
fn set_option<'a, 'b>(
    settings: &mut Settings,
    name: &[u8],
    rest: &'b [&'a [u8]],
) -> Result<(String, &'b [&'a [u8]]), Error> {
    let unknown = || unknown_option("SET", name);
    if is_word(name, "rename-command") {
        let [from, to, rest @ ..] = rest else { return Err(unknown()) };
        let [from, to] = [from, to].map(|word| String::from_utf8_lossy(word).into_owned());
        return Ok((format!("{from} {to}"), rest));
    }
    let (value, rest) = rest.split_first().ok_or_else(unknown)?;
    let number = |least: i64| {
        let number = crate::parse::parse_integer(value).filter(|&number| number >= least);
        number.map(i64::unsigned_abs).ok_or_else(|| invalid("SET", value, name))
    };
    let millis = || number(1).map(Duration::from_millis);
    let mut shown = String::from_utf8_lossy(value).into_owned();
    match () {
        () if is_word(name, "down-after-milliseconds") => settings.down_after = millis()?,
        () if is_word(name, "failover-timeout") => settings.failover_timeout = millis()?,
        () if is_word(name, "parallel-syncs") => settings.parallel_syncs = number(1)?,
        () if is_word(name, "quorum") => settings.quorum = number(1)?,
        () if is_word(name, "master-reboot-down-after-period") => _ = number(0)?,
        () if is_word(name, "auth-pass") => shown = "******".into(),
        () if is_word(name, "auth-user") => {}
        () if is_word(name, "notification-script") || is_word(name, "client-reconfig-script") => {
            return Err(Error::from_static(
                "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                 deny-scripts-reconfig configuration directive in your Sentinel configuration",
            ));
        }
        () => return Err(unknown()),
    }
    Ok((shown, rest))
}

/// `SENTINEL CONFIG <GET pattern | SET option value>`
pub(super) fn config(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match &argv[2..] {
        [word, pattern] if is_word(word, "get") => {
            let values = &state(ctx).0.options;
            let all = OPTIONS.iter().map(|(name, _)| *name).zip(values);
            let wanted = all.filter(|(name, _)| glob::matches(pattern, name.as_bytes()));
            Ok(Reply::Map(wanted.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect()))
        }
        [word, name, value] if is_word(word, "set") => {
            let place = OPTIONS.iter().position(|(own, _)| is_word(name, own));
            let [name_text, value_text] = [*name, *value].map(String::from_utf8_lossy);
            let place = place.ok_or_else(|| {
                Error::new(format!("ERR Invalid argument '{name_text}' to SENTINEL CONFIG SET"))
            })?;
            let is_valid = match OPTIONS[place].1 {
                "no" => is_word(value, "yes") || is_word(value, "no"),
                "0" => crate::parse::parse_integer(value).is_some_and(|port| (0..=65_535).contains(&port)),
                _ => true,
            };
            if !is_valid {
                let text = format!("ERR Invalid value '{value_text}' to SENTINEL CONFIG SET '{name_text}'");
                return Err(Error::new(text));
            }
            state(ctx).0.options[place] = value.to_vec();
            Ok(Reply::OK)
        }
        _ => Err(Error::from_static(
            "ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.",
        )),
    }
}

/// `SENTINEL DEBUG [parameter value [parameter value ...]]`
pub(super) fn debug(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let periods = &mut state(ctx).0.periods;
    if argv.len() == 2 {
        let field = |(name, millis): (&str, u64)| (Reply::bulk(name), Reply::bulk(millis.to_string()));
        return Ok(Reply::Map(periods.iter().map(field).collect()));
    }
    for pair in argv[2..].chunks(2) {
        let period = periods.get_mut(pair[0]).filter(|_| pair.len() == 2);
        let period = period.ok_or_else(|| unknown_option("DEBUG", pair[0]))?;
        let millis = crate::parse::parse_integer(pair[1]).filter(|&millis| millis > 0);
        *period = millis.ok_or_else(|| invalid("DEBUG", pair[1], pair[0]))?.unsigned_abs();
    }
    ctx.engine.note_change();
    Ok(Reply::OK)
}
