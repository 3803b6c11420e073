-- The world that a script sees: the globals that Redis 7.0 allows, read-only, and the `redis` table.
-- `native` holds what Rust provides. Returns the globals as scripts see them and as they are, `restore`, what runs a library, and the compiler.
local native, is_of_functions = ...

local error, pcall, xpcall, select, type, tostring = error, pcall, xpcall, select, type, tostring
local getmetatable, setmetatable, load, loadstring = getmetatable, setmetatable, load, loadstring
local collectgarbage, concat, unpack = collectgarbage, table.concat, unpack
local locate = native.locate

local READONLY = 'Attempt to modify a readonly table'

-- Lua 5.1 has no read-only tables: a script gets an empty proxy of each, and what could see the difference is replaced.
local contents_of = setmetatable(native.contents, { __mode = 'k' })

local function protect(contents)
  local proxy = setmetatable({}, {
    __index = contents,
    __newindex = function() error(READONLY, 2) end,
  })
  contents_of[proxy] = contents
  return proxy
end

local globals = {}
for _, name in ipairs {
  '_VERSION', 'assert', 'error', 'gcinfo', 'ipairs', 'load', 'loadstring', 'rawequal', 'select', 'tonumber', 'tostring',
  'type',
} do
  globals[name] = _G[name]
end

math.random, math.randomseed = native.random, native.randomseed

-- What takes C as long as a list has elements, or a text has bytes, is paid for by these.
local function paid(pay, builtin)
  return function(...)
    pay(...)
    return builtin(...)
  end
end
table.insert = native.relay_write(paid(native.table.pay_for_insert, table.insert))
table.remove = native.relay(paid(native.table.pay_for_remove, table.remove))
table.maxn = native.relay(paid(native.table.pay_for_maxn, table.maxn))
table.concat = native.table.concat

for name, builtin in pairs(native.string) do string[name] = builtin end
string.gfind = string.gmatch

-- How many functions are waiting to catch an error.
local n_catchers = 0

-- Calls back for Rust, through which an error that is a table could not pass. As in Redis, an error that nobody catches is seen by
-- the message handler where it is raised. Errors in a coroutine are caught where it is resumed.
local running = coroutine.running
local function protected(f, ...)
  if n_catchers > 0 or running() then return pcall(f, ...) end
  local args, n = { ... }, select('#', ...)
  return xpcall(function() return f(unpack(args, 1, n)) end, locate)
end

-- For `error('…', 2)`: as if the function had been called by C.
local function call(f, ...) return f(...) end

local function replace(parts, replacement, before, match, ...)
  parts[#parts + 1] = before
  if match == nil then return false end
  local value
  if type(replacement) == 'table' then value = replacement[(...)] else value = call(replacement, ...) end
  parts[#parts + 1] = value or match
  return true
end

-- What `matches` gives, with each match replaced; no text, and the type of a replacement that is none.
string.gsub = native.gsub(protected, function(subject, replacement, matches)
  local parts, n = {}, 0
  while replace(parts, replacement, matches(subject)) do
    n = n + 1
    local kind = type(parts[#parts])
    if kind ~= 'string' and kind ~= 'number' then return nil, kind end
  end
  return concat(parts), n
end)

local function resumed(ok, ...)
  n_catchers = n_catchers - 1
  if ok then return true, ... end
  return false, native.unwrap((...))
end

for name, builtin in pairs(native.coroutine) do coroutine[name] = builtin end

for _, name in ipairs { 'coroutine', 'math', 'string', 'table' } do
  globals[name] = protect(_G[name])
end
getmetatable('').__metatable = protect { __index = globals.string }

local redis = native.redis
for name, value in pairs {
  LOG_DEBUG = 0,
  LOG_VERBOSE = 1,
  LOG_NOTICE = 2,
  LOG_WARNING = 3,
  REPL_NONE = 0,
  REPL_AOF = 1,
  REPL_SLAVE = 2,
  REPL_REPLICA = 2,
  REPL_ALL = 3,
  REDIS_VERSION = '7.0.15',
  REDIS_VERSION_NUM = 0x0007000f,
} do
  redis[name] = value
end
if is_of_functions then
  redis.breakpoint, redis.debug, redis.replicate_commands = nil, nil, nil
end
globals.redis = protect(redis)
for name, library in pairs(native.libraries) do
  globals[name] = protect(library)
end

for name, builtin in pairs { next = next, pairs = pairs, rawget = rawget } do
  globals[name] = native.relay_read(builtin)
end
for name, builtin in pairs { rawset = rawset, setmetatable = setmetatable } do
  globals[name] = native.relay_write(builtin)
end

globals.unpack = native.table.unpack

-- What a script says of the garbage collector ends when the next begins.
local is_collector_changed = false
globals.collectgarbage = native.relay(function(option, ...)
  if option ~= nil and option ~= 'count' and option ~= 'collect' then is_collector_changed = true end
  if option ~= 'count' then native.table.pay_for_collection() end
  return collectgarbage(option, ...)
end)
local function restore_collector()
  is_collector_changed = false
  collectgarbage('setpause', 200)
  collectgarbage('setstepmul', 200)
  collectgarbage('restart')
end

globals.loadstring = native.relay(paid(native.table.pay_for_text, function(...)
  local chunk = ...
  if type(chunk) == 'string' and chunk:byte(1) == 27 then return nil, "unexpected symbol near 'char(27)'" end
  return loadstring(...)
end))

globals.load = native.load(protected, function(reader, name)
  local function text_only()
    local part = call(reader)
    native.table.pay_for_text(part)
    if type(part) == 'string' and part:byte(1) == 27 then error("unexpected symbol near 'char(27)'", 0) end
    return part
  end
  -- The compiler does not keep its copy of the name from the garbage collector, which the reader may call (CVE-2025-49844). `name` is
  -- that copy, and lives until `load` returns.
  local code, err = load(text_only, name)
  if code then return code end
  return nil, native.unwrap(err)
end)

-- Redis's own pcall: of a failed command the caller sees the text alone; of a table without one, the table and what stands in its place.
local function caught(ok, ...)
  n_catchers = n_catchers - 1
  if ok then return true, ... end
  local err = native.unwrap((...))
  if type(err) ~= 'table' then return false, err end
  local text = err.err
  if type(text) == 'string' or type(text) == 'number' then return false, text end
  return false, err, text
end
function globals.pcall(...)
  if select('#', ...) == 0 then return false, 'attempt to call a boolean value' end
  n_catchers = n_catchers + 1
  return caught(pcall(...))
end

function globals.xpcall(f, handler)
  n_catchers = n_catchers + 1
  return resumed(xpcall(f, function(err)
    if native.is_over() then return err end
    return handler(native.unwrap(err))
  end))
end

local metatable_of_globals = {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
}
setmetatable(globals, metatable_of_globals)
globals._G = protect(globals)

-- All that a library sees while it is loaded.
local loading = { register_function = native.register, log = redis.log }
for _, name in ipairs { 'LOG_DEBUG', 'LOG_VERBOSE', 'LOG_NOTICE', 'LOG_WARNING', 'REDIS_VERSION', 'REDIS_VERSION_NUM' } do
  loading[name] = redis[name]
end
loading = { redis = protect(setmetatable(loading, metatable_of_globals)) }
setmetatable(loading, metatable_of_globals)

local shown_metatable = protect(metatable_of_globals)
globals.getmetatable = native.relay(function(...)
  local t = ...
  if t == globals._G then return shown_metatable end
  if contents_of[t] then return nil end
  return getmetatable(...)
end)

-- Undoes what the last script has left. Rust calls it if that script has caught an error, has failed, or has called `collectgarbage`.
local function restore()
  n_catchers = 0
  if is_collector_changed then restore_collector() end
end

local seen = getmetatable(globals._G)
local function load_library(library)
  restore()
  seen.__index = loading
  local ok, err = xpcall(library, locate)
  seen.__index = globals
  return ok, err
end

return globals._G, globals, restore, load_library, loadstring
