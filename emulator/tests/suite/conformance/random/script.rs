//! Random Lua scripts: a few calls of random commands, and a computation on their replies.
//!
//! Scripts have forms of their own, in which `$` stands for an expression and `@` for a call. No
//! form uses what Lua leaves open, such as the order of a table's keys or its address.

use emulator::Emulator;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::wire::{Emulated, Peer as _};
use super::command::is_wanted;
use super::forms::pool;
use super::grammar::{Argv, Word, one_of};

const ATOMS: &[&str] = &[
    "v1", "v2", "KEYS[1]", "ARGV[1]", "ARGV[2]", "1", "0", "-1.5", "3.99", "2^53", "1e300", "0/0", "1/0",
    "'x'", "'12'", "''", "true", "false", "nil", "{}", "#KEYS", "v9",
];

const EXPRESSIONS: &[&str] = &[
    "tonumber($)",
    "tostring(tonumber($))",
    "#$",
    "$ .. $",
    "$ + $",
    "$ % 7",
    "-$",
    "$ == $",
    "$ < $",
    "not $",
    "($ and $)",
    "($ or $)",
    "type($)",
    "string.len($)",
    "string.sub($, 1, -2)",
    "string.format('%s|%d', $, $)",
    "string.format('%5.2f', $)",
    "string.format('%q', $)",
    "string.rep($, 3)",
    "string.upper($)",
    "string.byte($)",
    "string.find($, 'x')",
    "string.gsub($, '%d', '#')",
    "string.reverse($)",
    "string.char($)",
    "{$}",
    "{$, $}",
    "{$, nil, $}",
    "{ok=$}",
    "{err=$}",
    "{double=$}",
    "{map={k=$}}",
    "{set={x=$}}",
    "{big_number=$}",
    "{verbatim_string={string=$, format='txt'}}",
    "($)[1]",
    "($)['ok']",
    "($).err",
    "redis.error_reply($)",
    "redis.status_reply($)",
    "redis.sha1hex($)",
    "select('#', $)",
    "select(2, pcall(error, type($)))",
    "math.floor($)",
    "math.max($, $)",
    "unpack($)",
    "table.concat($, ',')",
    "next($)",
    "rawget($, 1)",
    "redis.setresp($)",
    "redis.REPL_ALL",
    "redis.REDIS_VERSION",
    "pcall(function() return $ end)",
    "cjson.encode($)",
    "cjson.encode({$, $})",
    "cjson.decode($)",
    "cjson.decode('[1, 2.5, \"x\", null, true]')",
    "cjson.encode(cjson.decode('{\"k\": ' .. $ .. '}'))",
    "cmsgpack.pack($)",
    "cmsgpack.unpack(cmsgpack.pack($, $))",
    "cmsgpack.unpack($)",
    "struct.pack('>I2', $)",
    "struct.pack('<d', $)",
    "struct.unpack('>h', $)",
    "struct.size('i4i8')",
    "bit.band($, $)",
    "bit.bnot($)",
    "bit.lshift($, 3)",
    "bit.tohex($)",
    "bit.tobit($)",
];

/// No statement raises a table without a text as its error, because that crashes Redis 7.0.15.
const STATEMENTS: &[&str] = &[
    "@",
    "@",
    "@",
    "if $ then @ end",
    "for i = 1, 2 do @ end",
    "v2 = $",
    "if $ then error(type($)) end",
    "if $ then error({err=type($)}) end",
    "if $ then return $ end",
    "x = $",
];

/// `EVAL` and `EVAL_RO` of random scripts that call these commands.
pub fn evals(calls: BoxedStrategy<Argv>) -> BoxedStrategy<Argv> {
    let names = ["eval", "eval", "eval", "eval_ro"].into_iter();
    let names: Vec<_> = names.filter(|name| emulator::command::lookup(name.as_bytes()).is_some()).collect();
    let keys = vec(select(&["s", "t", "h", "l", "e", "z", "a", "b"][..]), 0..3);
    let values = vec(select(pool("V")), 0..3);
    let evals = (select(names), scripts(calls), keys, values).prop_map(|(name, script, keys, values)| {
        let head: [Word; 3] = [name.into(), script.into(), keys.len().to_string().into()];
        head.into_iter().chain(keys.into_iter().chain(values).map(Word::from)).collect()
    });
    evals.boxed()
}

fn scripts(calls: BoxedStrategy<Argv>) -> BoxedStrategy<String> {
    let expressions = expressions();
    let call = call(calls);
    let statements = STATEMENTS.iter().map(|text| form(text, &expressions, &call)).collect();
    let shebangs = prop_oneof![12 => Just(""), 1 => Just("#!lua\n"), 1 => Just("#!lua flags=no-writes\n"), 1 => Just("#!lua flags=x\n")];
    let ends = prop_oneof![1 => Just("v1".to_owned()), 6 => expressions];
    (shebangs, vec(one_of(statements), 0..4), ends)
        .prop_map(|(shebang, statements, end)| {
            format!("{shebang}local v1, v2; {} do return {end} end", statements.join("; "))
        })
        .boxed()
}

fn expressions() -> BoxedStrategy<String> {
    let mut emulated = Emulated::open(&Emulator::new());
    let mut is_there = |text: &&&str| {
        let mut libraries = ["cjson", "cmsgpack", "struct", "bit"].into_iter();
        let library = libraries.rfind(|library| text.contains(&format!("{library}.")));
        library.is_none_or(|library| {
            emulated.call(&["eval", &format!("return rawget(_G, '{library}') and 1"), "0"]) == b":1\r\n"
        })
    };
    let there: Vec<&'static str> =
        EXPRESSIONS.iter().filter(|text| is_wanted(text) && is_there(text)).copied().collect();
    let atoms = select(ATOMS).prop_map(str::to_owned);
    let larger = move |inner: BoxedStrategy<String>| {
        let forms = there.iter().map(|text| form(text, &inner, &inner));
        one_of(forms.collect())
    };
    atoms.prop_recursive(3, 8, 2, larger).boxed()
}

/// A call, some of whose arguments are expressions. Its reply becomes `v1`, and the reply before
/// becomes `v2`.
fn call(calls: BoxedStrategy<Argv>) -> BoxedStrategy<String> {
    let replacements = vec(option::weighted(0.1, select(ATOMS)), 12);
    (select(&["pcall", "call", "call"][..]), calls, replacements)
        .prop_map(|(function, argv, replacements)| {
            let replacements = replacements.into_iter().chain(std::iter::repeat(None));
            let words = argv.iter().zip(replacements);
            let words =
                words.map(|(word, replacement)| replacement.map_or_else(|| quote(word), str::to_owned));
            format!("v1, v2 = redis.{function}({}), v1", words.collect::<Vec<_>>().join(", "))
        })
        .boxed()
}

/// A Lua form with its placeholders filled in.
fn form(
    text: &'static str,
    expressions: &BoxedStrategy<String>,
    calls: &BoxedStrategy<String>,
) -> BoxedStrategy<String> {
    let parts = text.split_inclusive(['$', '@']).flat_map(|part| {
        let (literal, hole) = match part.as_bytes().last() {
            Some(b'$') => (&part[..part.len() - 1], Some(expressions.clone())),
            Some(b'@') => (&part[..part.len() - 1], Some(calls.clone())),
            _ => (part, None),
        };
        [Some(Just(literal.to_owned()).boxed()), hole].into_iter().flatten()
    });
    parts.collect::<Vec<_>>().prop_map(|parts| parts.concat()).boxed()
}

/// A word as a Lua string.
fn quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{escaped}'")
}
