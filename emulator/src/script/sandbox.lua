-- The world that a script sees: the globals that Redis 7.0 allows, read-only, and the `redis` table.
-- `native` holds what Rust provides. Returns the globals as scripts see them and as they are, `restore`, what runs a library, and the compiler.
local native, is_of_functions = ...

local error, xpcall, type, tostring = error, xpcall, type, tostring
local getmetatable, setmetatable, loadstring, collectgarbage = getmetatable, setmetatable, loadstring, collectgarbage
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
  '_VERSION', 'assert', 'error', 'gcinfo', 'ipairs', 'next', 'pairs', 'rawequal', 'rawget', 'rawset', 'select',
  'setmetatable', 'tonumber', 'tostring', 'type',
} do
  globals[name] = _G[name]
end

math.random, math.randomseed = native.random, native.randomseed

table.concat = native.table.concat
for name, builtin in pairs(native.string) do string[name] = builtin end
string.gfind = string.gmatch

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

globals.loadstring = native.relay(function(...)
  local chunk, name = ...
  native.table.pay_for_text(chunk)
  -- A space before bytecode makes it text, which does not compile.
  if type(chunk) == 'string' and chunk:byte(1) == 27 then
    return loadstring(' ' .. chunk, name == nil and chunk or name)
  end
  return loadstring(...)
end)

for name, builtin in pairs(native.catchers) do globals[name] = builtin end

local metatable_of_globals = {
  __index = function(_, name)
    if type(name) ~= 'string' and type(name) ~= 'number' then
      error('Second argument to luaProtectedTableError must be a string or number', 2)
    end
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

return globals._G, globals, restore, load_library, native.compile
