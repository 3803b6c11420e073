//! `DEBUG`: those of its subcommands that are useful to the tests of clients.

use std::time::Duration;

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, blocking, count, docs, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Expiry, Value};
use crate::log::LogLevel;
use crate::reply::Reply;
use crate::resp::Protocol;

/// The largest number of keys that `DEBUG POPULATE` makes at once.
const POPULATE_MAX: usize = 1_000_000;
/// The longest value that it makes, in bytes.
const POPULATE_BYTES_MAX: usize = 1 << 20;

/// A subcommand: its name and arguments, the smallest and the largest number of these, its purpose,
/// and its function.
struct Tool {
    grammar: &'static str,
    argc: (usize, usize),
    summary: &'static str,
    run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome,
}

const TOOLS: &[Tool] = &[
    Tool {
        grammar: "CHANGE-REPL-ID",
        argc: (0, 0),
        summary: "Does nothing, because this server does not replicate.",
        run: nothing,
    },
    Tool { grammar: "ERROR message", argc: (1, 1), summary: "Answers with this error.", run: debug_error },
    Tool { grammar: "LOG message", argc: (1, 1), summary: "Logs this as a warning.", run: debug_log },
    Tool {
        grammar: "OBJECT key",
        argc: (1, 1),
        summary: "Describes in one line how a value is stored.",
        run: object,
    },
    Tool {
        grammar: "POPULATE count [prefix [size]]",
        argc: (1, 3),
        summary: "Creates this many keys. Existing keys stay.",
        run: populate,
    },
    Tool {
        grammar: "PROTOCOL type",
        argc: (1, 1),
        summary: "Answers with a reply of this type.",
        run: protocol,
    },
    Tool {
        grammar: "SET-ACTIVE-EXPIRE <0 | 1>",
        argc: (1, 1),
        summary: "Sets whether expired keys are removed before a command reads them.",
        run: set_active_expire,
    },
    Tool {
        grammar: "SLEEP seconds",
        argc: (1, 1),
        summary: "Serves no client for this time, by the server's clock.",
        run: sleep,
    },
];

/// `DEBUG subcommand [arg [arg ...]]`
pub(super) fn debug(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let name = |tool: &Tool| tool.grammar.split(' ').next().unwrap_or_default();
    if argv.len() == 2 && is_word(argv[1], "help") {
        let tools = TOOLS.iter().flat_map(|tool| [tool.grammar.to_owned(), format!("    {}", tool.summary)]);
        let own = ["HELP".to_owned(), "    Lists these subcommands.".to_owned()];
        return Ok(docs::help_of("debug", tools.chain(own)));
    }
    let argc = argv.len() - 2;
    let tool =
        TOOLS.iter().find(|tool| is_word(argv[1], name(tool)) && (tool.argc.0..=tool.argc.1).contains(&argc));
    let tool = tool.ok_or_else(|| error::unknown_subcommand_or_arity("DEBUG", argv[1]))?;
    (tool.run)(ctx, argv)
}

fn nothing(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::OK)
}

/// `DEBUG ERROR message`
fn debug_error(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Err(Error::new(Bytes::copy_from_slice(argv[2])))
}

/// `DEBUG LOG message`
fn debug_log(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.log(LogLevel::Warning, [b"DEBUG LOG: ", argv[2]].concat().into());
    Ok(Reply::OK)
}

/// `DEBUG OBJECT key`
fn object(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let now = ctx.engine.keyspace.now();
    let mut db = ctx.engine.keyspace.db(ctx.client.db);
    let (Some(encoding), Some(bytes), Some(accessed)) =
        (db.encoding(argv[2]), db.memory(argv[2]), db.accessed(argv[2]))
    else {
        return Err(Error::from_static("ERR no such key"));
    };
    let idle = (now.millis() / 1000 - accessed.millis() / 1000).max(0);
    let lru = (accessed.millis() / 1000) & 0xff_ffff;
    let encoding = encoding.word();
    let line = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{lru} lru_seconds_idle:{idle}"
    );
    Ok(Reply::Status(line.into()))
}

/// `DEBUG POPULATE count [prefix [size]]`
fn populate(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keys = count(argv[2])?;
    let size = argv.get(4).map(|size| count(size)).transpose()?;
    if keys > POPULATE_MAX || size.is_some_and(|size| size > POPULATE_BYTES_MAX) {
        return Err(Error::new(format!(
            "ERR DEBUG POPULATE creates at most {POPULATE_MAX} keys, with values of at most {POPULATE_BYTES_MAX} bytes"
        )));
    }
    let prefix = argv.get(3).map_or("key".into(), |prefix| String::from_utf8_lossy(prefix));
    for idx in 0..keys {
        let key = format!("{prefix}:{idx}");
        let mut value = format!("value:{idx}").into_bytes();
        if let Some(size) = size.filter(|&size| size > 0) {
            value.resize(size, 0);
        }
        let mut db = ctx.db();
        if !db.contains(key.as_bytes()) {
            db.insert(key.as_bytes(), Value::String((&value[..]).into()), Expiry::Never);
        }
    }
    Ok(Reply::OK)
}

/// The reply of `DEBUG PROTOCOL double`: exactly these digits of pi.
#[expect(clippy::approx_constant, reason = "the number is Redis's")]
const SOME_DOUBLE: f64 = 3.141;

/// `DEBUG PROTOCOL type`
///
/// Replies with attributes are sent without them.
fn protocol(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let three = || (0..3).map(Reply::Integer);
    let replies: [(&str, Reply); 13] = [
        ("string", Reply::bulk("Hello World")),
        ("integer", Reply::Integer(12345)),
        ("double", Reply::Double(SOME_DOUBLE)),
        ("bignum", Reply::BigNumber("1234567999999999999999999999999999999".into())),
        ("null", Reply::Nil),
        ("array", Reply::Array(three().collect())),
        ("set", Reply::Set(three().collect())),
        ("map", Reply::Map((0..3).map(|n| (Reply::Integer(n), Reply::Boolean(n == 1))).collect())),
        ("attrib", Reply::bulk("Some real reply following the attribute")),
        ("push", Reply::Push(vec![Reply::bulk("server-cpu-usage"), Reply::Integer(42)])),
        ("verbatim", Reply::Verbatim(*b"txt", "This is a verbatim\nstring".into())),
        ("true", Reply::Boolean(true)),
        ("false", Reply::Boolean(false)),
    ];
    let Some((name, reply)) = replies.into_iter().find(|(name, _)| is_word(argv[2], name)) else {
        return Err(Error::from_static(
            "ERR Wrong protocol type name. Please use one of the following: \
             string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
        ));
    };
    if name != "push" {
        return Ok(reply);
    }
    if ctx.client.protocol == Protocol::Resp2 {
        return Err(Error::from_static("ERR RESP2 is not supported by this command"));
    }
    Ok(Reply::Several(vec![reply, Reply::bulk("Some real reply following the push reply")]))
}

/// `DEBUG SET-ACTIVE-EXPIRE <0 | 1>`
fn set_active_expire(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let is_active = crate::parse::parse_integer(argv[2]).is_some_and(|number| number != 0);
    ctx.engine.keyspace.set_active_expiry(is_active);
    Ok(Reply::OK)
}

/// `DEBUG SLEEP seconds`
///
/// Redis stops. Here the process continues, and only the server appears to stop.
///
/// All commands are delayed until the server's clock, of whatever kind, has moved by so many
/// seconds.
fn sleep(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let seconds = std::str::from_utf8(argv[2]).ok().and_then(|digits| digits.parse::<f64>().ok());
    let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    if span.is_zero() {
        return Ok(Reply::OK);
    }
    let until = ctx.engine.keyspace.now() + span;
    ctx.engine.asleep_until = ctx.engine.asleep_until.max(Some(until));
    ctx.engine.note_change();
    Ok(blocking::wait_out(ctx, blocking::Wait { deadline: Some(until), on_timeout: Reply::OK }))
}
