//! Makes Lua programs of a few lines from bytes. Most of them compile, and all end. In each form,
//! `$` stands for an expression and `@` for a few statements.

use emulator::ScriptBudget;

use crate::commands::take;

/// The budget is small, so that scripts use it up soon.
pub const BUDGET: ScriptBudget = ScriptBudget {
    instructions_max: 200_000,
    commands_max: 1_000,
    footprint_entries_max: 2_000,
    memory_bytes_max: 8 << 20,
};

/// The deepest nesting of forms.
const DEPTH_MAX: usize = 5;
/// The most consecutive statements.
const STATEMENTS_MAX: u8 = 4;
/// The most forms in one program, because nested loops run often.
const FORMS_MAX: usize = 120;

/// A program made from these choices.
pub fn program(choices: &mut &[u8]) -> Vec<u8> {
    let mut writer =
        Writer { choices, text: Vec::from("local v1, v2, t = ARGV[1], 2, {}\n"), forms_left: FORMS_MAX };
    writer.block(0);
    writer.text
}

struct Writer<'a, 'b> {
    choices: &'a mut &'b [u8],
    text: Vec<u8>,
    forms_left: usize,
}

impl Writer<'_, '_> {
    /// The next choice; 0 if no bytes are left.
    fn choice(&mut self) -> usize {
        take(self.choices).unwrap_or_default().into()
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..=self.choice() % usize::from(STATEMENTS_MAX) {
            if self.choices.is_empty() {
                break;
            }
            let form = STATEMENTS[self.choice() % STATEMENTS.len()];
            self.form(form, depth);
            self.text.push(b'\n');
        }
        if !self.choice().is_multiple_of(4) {
            self.form("do return $ end\n", depth);
        }
    }

    fn expression(&mut self, depth: usize) {
        let choice = self.choice();
        let is_atom =
            depth >= DEPTH_MAX || self.forms_left == 0 || self.choices.is_empty() || choice.is_multiple_of(4);
        let forms = if is_atom { ATOMS } else { EXPRESSIONS };
        let form = forms[self.choice() % forms.len()];
        self.form(form, depth);
    }

    fn form(&mut self, form: &str, depth: usize) {
        self.forms_left = self.forms_left.saturating_sub(1);
        for byte in form.bytes() {
            match byte {
                b'$' => self.expression(depth + 1),
                b'@' if depth < DEPTH_MAX => self.block(depth + 1),
                b'@' => {}
                byte => self.text.push(byte),
            }
        }
    }
}

const ATOMS: &[&str] = &[
    "nil",
    "v1",
    "v2",
    "t",
    "KEYS[1]",
    "KEYS",
    "ARGV",
    "ARGV[2]",
    "1",
    "0",
    "-1.5",
    "3.99",
    "2^53",
    "1e300",
    "(0/0)",
    "(1/0)",
    "255",
    "'x'",
    "'12'",
    "''",
    "'\\0\\255'",
    "'%d%s'",
    "'[a-c]*'",
    "'(.)(x*)'",
    "true",
    "false",
    "{}",
    "_G",
    "redis",
    "string",
    "math",
    "cjson.null",
    "...",
    "print",
    "('a'):upper()",
    "[[{\"a\":[1,2.5,null]}]]",
    "'>I2i4s'",
];

const STATEMENTS: &[&str] = &[
    "v1 = $",
    "v2 = $",
    "t[$] = $",
    "t.x = $",
    "local v3 = $",
    "x = $",
    "if $ then @ else @ end",
    "if $ then error($) end",
    "for i = 1, 3 do @ end",
    "for i, x in ipairs({$, $}) do v2 = x @ end",
    "for k, x in pairs($) do v1 = k break end",
    "do @ end",
    "local function f(a, ...) v1 = a @ end f($, $)",
    "v1, v2 = pcall(function(...) @ end, $)",
    "v1, v2 = xpcall(function() @ end, function(e) return $ end)",
    "local co = coroutine.create(function(a) v1 = coroutine.yield($) @ end) v2 = {coroutine.resume(co, $)} v1 = coroutine.status(co)",
    "local w = coroutine.wrap(function() @ end) v1 = {w($)}",
    "setmetatable(t, {__index = $, __newindex = $, __metatable = $})",
    "setmetatable(t, {__index = function(a, k) @ end, __call = function(...) @ end, __tostring = function() return $ end})",
    "setmetatable(t, {__add = function(a, b) return $ end, __concat = function(a, b) return $ end, __eq = function() return $ end, __lt = function() return $ end, __len = function() return $ end})",
    "rawset($, $, $)",
    "table.insert($, $)",
    "table.insert(t, 1, $)",
    "table.sort($, function(a, b) return $ end)",
    "table.sort(t)",
    "redis.setresp($)",
    "redis.log($, $)",
    "redis.set_repl($)",
    "redis.replicate_commands()",
    "redis.call('set', KEYS[1], $)",
    "redis.call('zadd', 'b', $, $)",
    "redis.pcall('select', $)",
    "math.randomseed($)",
    "cjson.encode_sparse_array($, $, $)",
    "cjson.encode_max_depth($)",
    "cjson.decode_max_depth($)",
    "cjson.encode_number_precision($)",
    "cjson.encode_invalid_numbers($)",
    "cjson.decode_invalid_numbers($)",
    "cjson.encode_keep_buffer($)",
    "string.gsub($, $, function(a, b) return $ end)",
    "for a, b in string.gmatch($, $) do v1 = a break end",
    "assert($, $)",
    "local v4 <close> = $",
    "return $",
];

const EXPRESSIONS: &[&str] = &[
    "tonumber($)",
    "tonumber($, 16)",
    "tostring($)",
    "type($)",
    "#$",
    "($ .. $)",
    "($ + $)",
    "($ - $)",
    "($ * $)",
    "($ / $)",
    "($ % $)",
    "($ ^ $)",
    "-$",
    "($ == $)",
    "($ ~= $)",
    "($ < $)",
    "($ <= $)",
    "not $",
    "($ and $)",
    "($ or $)",
    "{$}",
    "{$, $}",
    "{$, nil, $}",
    "{[$] = $}",
    "{a = $, b = {$}}",
    "{ok = $}",
    "{err = $}",
    "{double = $}",
    "{map = {k = $}}",
    "{set = {x = $}}",
    "{big_number = $}",
    "{verbatim_string = {string = $, format = 'txt'}}",
    "($)[$]",
    "($).err",
    "($)($)",
    "(function(...) @ end)($)",
    "select('#', $)",
    "select($, $, $)",
    "next($)",
    "next($, $)",
    "rawget($, $)",
    "rawequal($, $)",
    "getmetatable($)",
    "unpack($)",
    "pcall($, $)",
    "pcall(error, $)",
    "load(function() return nil end)",
    "loadstring($)",
    "loadstring('return ' .. tostring($))",
    "load($)",
    "collectgarbage('count')",
    "gcinfo()",
    "string.len($)",
    "string.sub($, $, $)",
    "string.upper($)",
    "string.lower($)",
    "string.byte($, $, $)",
    "string.char($, $)",
    "string.rep($, 3)",
    "string.reverse($)",
    "string.find($, $)",
    "string.find($, $, $, true)",
    "string.match($, $)",
    "string.gsub($, $, $)",
    "string.gsub($, '.', $)",
    "string.format($, $)",
    "string.format('%q%s%d%5.2f%x%c', $, $, $, $, $, $)",
    "string.dump($)",
    "table.concat($, $)",
    "table.remove($)",
    "table.maxn($)",
    "table.getn($)",
    "math.floor($)",
    "math.max($, $)",
    "math.fmod($, $)",
    "math.random($)",
    "math.random()",
    "math.sqrt($)",
    "math.frexp($)",
    "math.modf($)",
    "redis.call('get', $)",
    "redis.call($, $)",
    "redis.call($)",
    "{redis.pcall('sadd', 's', $), redis.pcall('smembers', 's'), redis.pcall('hgetall', '{a}c'), redis.pcall('memory', 'doctor')}",
    "redis.pcall('zrange', 'b', 0, -1, 'withscores')",
    "redis.pcall($, $, $)",
    "redis.error_reply($)",
    "redis.status_reply($)",
    "redis.sha1hex($)",
    "redis.acl_check_cmd($, $)",
    "redis.breakpoint()",
    "redis.debug($)",
    "redis.REDIS_VERSION_NUM",
    "cjson.encode($)",
    "cjson.decode($)",
    "cjson.decode(cjson.encode($))",
    "cmsgpack.pack($)",
    "cmsgpack.unpack($)",
    "cmsgpack.unpack(cmsgpack.pack($, $))",
    "cmsgpack.unpack_one($, $)",
    "cmsgpack.unpack_limit($, $, $)",
    "struct.pack($, $)",
    "struct.pack('>I2', $)",
    "struct.unpack($, $)",
    "struct.unpack('<d', $)",
    "struct.size($)",
    "bit.band($, $)",
    "bit.bor($, $, $)",
    "bit.bxor($, $)",
    "bit.bnot($)",
    "bit.lshift($, $)",
    "bit.arshift($, $)",
    "bit.rol($, $)",
    "bit.bswap($)",
    "bit.tohex($, $)",
    "bit.tobit($)",
    "coroutine.running()",
    "os.clock()",
    "_G[$]",
    "getfenv()",
    "debug",
    "_VERSION",
];
