//! The scripts that clients run. Each is also a function of the library.

use std::sync::LazyLock;

/// A script that a client sends as text, by its hash or by its function name.
pub(super) struct Script {
    pub(super) source: &'static str,
    pub(super) function: &'static str,
    sha1: LazyLock<String>,
}

impl Script {
    pub(super) fn sha1(&self) -> &str {
        &self.sha1
    }
}

macro_rules! script {
    ($name:ident, $function:literal, $source:literal) => {
        pub(super) static $name: Script = Script {
            source: $source,
            function: $function,
            sha1: LazyLock::new(|| redis::Script::new($source).get_hash().to_owned()),
        };
    };
}

// If the key has another type, the script returns the error of `GET` itself, without its place in
// the script.
script!(
    COMPARE_AND_DELETE,
    "compare_and_delete",
    "local value = redis.pcall('GET', KEYS[1])
    if type(value) == 'table' then return value end
    if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0"
);
script!(
    INCREMENT_BOTH,
    "increment_both",
    "redis.call('INCR', KEYS[2])
    return redis.call('INCR', KEYS[1])"
);
script!(
    DUMP,
    "dump",
    "local out = {}
    for i, key in ipairs(KEYS) do
        local kind, content = redis.call('TYPE', key).ok, {}
        if kind == 'string' then content = {redis.call('GET', key)}
        elseif kind == 'list' then content = redis.call('LRANGE', key, 0, -1)
        elseif kind == 'zset' then content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        elseif kind == 'set' then
            content = redis.call('SMEMBERS', key)
            table.sort(content)
        elseif kind == 'hash' then
            local fields = redis.call('HKEYS', key)
            table.sort(fields)
            for _, field in ipairs(fields) do
                table.insert(content, field)
                table.insert(content, redis.call('HGET', key, field))
            end
        end
        local ttl = redis.call('PTTL', key)
        out[i] = {kind, content, ttl > 0 and 1 or 0}
    end
    return out"
);

pub(super) fn all() -> [&'static Script; 3] {
    [&COMPARE_AND_DELETE, &INCREMENT_BOTH, &DUMP]
}

/// A library with all scripts as functions.
pub(super) fn library() -> String {
    let function = |script: &Script| {
        format!(
            "redis.register_function('{}', function(KEYS, ARGV) {}\nend)\n",
            script.function, script.source
        )
    };
    format!("#!lua name=soak\n{}", all().map(function).concat())
}
