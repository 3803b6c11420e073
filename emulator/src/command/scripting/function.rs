//! Commands on libraries of functions: FUNCTION and FCALL.

use bytes::Bytes;

use super::super::Flag::{AllowBusy, DenyOom, NoScript, Write};
use super::program::{check_flush_mode, keys_and_args, kill, lend, prepare_for_cluster};
use crate::busy::{Program, ProgramKind};
use crate::command::{Argv, Ctx, Outcome, Row, is_word};
use crate::error::{self, Error};
use crate::footprint::Access;
use crate::glob;
use crate::reply::Reply;
use crate::script::{self, Mode, RestorePolicy};

const EVERYWHERE: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(super) const ROWS: &[Row] = &[
    Row::new("function|delete", 3, &[NoScript, Write], delete).tips(EVERYWHERE),
    Row::new("function|dump", 2, &[NoScript], dump),
    Row::new("function|flush", -2, &[NoScript, Write], flush).tips(EVERYWHERE),
    Row::help("function|help"),
    Row::new("function|kill", 2, &[NoScript, AllowBusy], |ctx, _| kill(ctx, ProgramKind::Function))
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    Row::new("function|list", -2, &[NoScript], list).tips(&["nondeterministic_output_order"]),
    Row::new("function|load", -3, &[NoScript, Write, DenyOom], load).tips(EVERYWHERE),
    Row::new("function|restore", -3, &[NoScript, Write, DenyOom], restore).tips(EVERYWHERE),
    Row::new("function|stats", 2, &[NoScript, AllowBusy], stats).tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ]),
];

/// `FCALL function numkeys [key [key ...]] [arg [arg ...]]`, and `FCALL_RO`
pub(super) fn fcall(ctx: &mut Ctx<'_>, argv: &Argv<'_>, mode: Mode) -> Outcome {
    let functions = ctx.engine.functions(Access::Write);
    let function = functions.lookup(argv[1]).cloned().ok_or(error::FUNCTION_NOT_FOUND)?;
    let (keys, args) = keys_and_args(argv, &error::FUNCTION_NUMKEYS)?;
    prepare_for_cluster(ctx, argv)?;
    let ready = ctx.engine.functions(Access::Write).take(&function, mode)?;
    let program = || Program::Function {
        name: function.1.clone(),
        argv: argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect(),
    };
    let reply = lend(ctx, keys, program, |host| ready.run(keys, args, host));
    ctx.engine.put_back_function(ready);
    Ok(reply)
}

/// `FUNCTION LOAD [REPLACE] code`
fn load(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let [options @ .., code] = &argv[2..] else { return Err(error::SYNTAX) };
    for option in options {
        if !is_word(option, "replace") {
            return Err(with_argument("ERR Unknown option given: ", option));
        }
    }
    let name = ctx.engine.functions(Access::Write).load(code, !options.is_empty())?;
    ctx.replicate_as_is(argv);
    Ok(Reply::Bulk(name))
}

/// `FUNCTION DELETE library`
fn delete(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.functions(Access::Write).delete(argv[2])?;
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`
fn flush(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    check_argc(argv, 3)?;
    check_flush_mode(&argv[2..], &error::FUNCTION_FLUSH_MODE)?;
    ctx.engine.functions(Access::Write).flush();
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut options = argv[2..].iter();
    while let Some(option) = options.next() {
        if !with_code && is_word(option, "withcode") {
            with_code = true;
        } else if pattern.is_none() && is_word(option, "libraryname") {
            const MISSING: Error = Error::from_static("ERR library name argument was not given");
            pattern = Some(*options.next().ok_or(MISSING)?);
        } else {
            return Err(with_argument("ERR Unknown argument ", option));
        }
    }
    let libraries = ctx.engine.functions(Access::Read).libraries().iter();
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let listed = libraries.filter(|(name, _)| {
        pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, &name.to_ascii_lowercase()))
    });
    let described = listed.map(|(name, library)| {
        let functions = library.functions.iter().map(|(name, description)| {
            let flags = description.flags.iter().copied().map(Reply::status).collect();
            fields([
                ("name", Reply::Bulk(name.clone())),
                ("description", Reply::bulk_or_nil(description.text.clone())),
                ("flags", Reply::Set(flags)),
            ])
        });
        let code = with_code.then(|| ("library_code", Reply::Bulk(library.code.clone())));
        let known = [
            ("library_name", Reply::Bulk(name.clone())),
            ("engine", Reply::bulk("LUA")),
            ("functions", Reply::Array(functions.collect())),
        ];
        fields(known.into_iter().chain(code))
    });
    Ok(Reply::Array(described.collect()))
}

/// `FUNCTION STATS`
fn stats(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let running = match ctx.engine.busy.function()? {
        Some((Program::Function { name, argv }, span)) => fields([
            ("name", Reply::Bulk(name)),
            ("command", Reply::Array(argv.into_iter().map(Reply::Bulk).collect())),
            ("duration_ms", Reply::Integer(span.as_millis() as i64)),
        ]),
        Some((Program::Script, _)) | None => Reply::Nil,
    };
    let libraries = ctx.engine.functions(Access::Read).libraries();
    let n_functions = libraries.values().map(|library| library.functions.len()).sum();
    let engine = fields([
        ("libraries_count", Reply::count(libraries.len())),
        ("functions_count", Reply::count(n_functions)),
    ]);
    Ok(fields([("running_script", running), ("engines", fields([("LUA", engine)]))]))
}

/// `FUNCTION DUMP`
fn dump(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk(script::dump(ctx.engine.functions(Access::Read).libraries())))
}

/// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`
fn restore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    const POLICIES: &[(&str, RestorePolicy)] = &[
        ("append", RestorePolicy::Append),
        ("replace", RestorePolicy::Replace),
        ("flush", RestorePolicy::Flush),
    ];
    const WRONG_POLICY: Error = Error::from_static(
        "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
    );
    check_argc(argv, 4)?;
    let policy = match argv.get(3) {
        None => RestorePolicy::Append,
        Some(word) => POLICIES.iter().find(|(name, _)| is_word(word, name)).ok_or(WRONG_POLICY)?.1,
    };
    ctx.engine.functions(Access::Write).restore(&script::restore(argv[2])?, policy)?;
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

fn check_argc(argv: &Argv<'_>, max: usize) -> Result<(), Error> {
    if argv.len() <= max { Ok(()) } else { Err(error::unknown_subcommand_or_arity("function", argv[1])) }
}

fn fields(fields: impl IntoIterator<Item = (&'static str, Reply)>) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

fn with_argument(text: &str, argument: &[u8]) -> Error {
    Error::new([text.as_bytes(), argument].concat())
}
