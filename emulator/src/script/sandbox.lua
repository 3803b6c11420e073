-- The world that a script sees: the globals that Redis 7.0 allows, read-only, and the `redis` table.
-- `native` holds what Rust provides. Returns the globals, and the function that runs a compiled script.
local native = ...

local error, pcall, xpcall, select, type = error, pcall, xpcall, select, type
local tonumber, tostring = tonumber, tostring
local next, rawget, rawset, getmetatable, setmetatable = next, rawget, rawset, getmetatable, setmetatable

local READONLY = 'Attempt to modify a readonly table'

-- Lua 5.1 has no read-only tables: a script gets an empty proxy of each, and what could see the difference is replaced.
local contents_of = setmetatable({}, { __mode = 'k' })

local function protect(contents)
  local proxy = setmetatable({}, {
    __index = contents,
    __newindex = function() error(READONLY, 2) end,
  })
  contents_of[proxy] = contents
  return proxy
end

local function see_through(t)
  return contents_of[t] or t
end

local function check_writable(t)
  if contents_of[t] then error(READONLY, 0) end
end

-- A built-in function called under this name: its errors tell the line of the script and not ours.
local function relay(name, ok, ...)
  if ok then return ... end
  local err = ...
  if type(err) == 'string' then err = err:gsub("'%?'", "'" .. name .. "'", 1) end
  error(err, 3)
end

-- A failed command, or a call of `redis.*` that is wrong.
local function fail(text)
  error({ err = text }, 0)
end

local globals = {}
for _, name in ipairs {
  '_VERSION', 'assert', 'collectgarbage', 'error', 'gcinfo', 'ipairs', 'load', 'loadstring', 'rawequal', 'select',
  'tonumber', 'tostring', 'type', 'unpack',
} do
  globals[name] = _G[name]
end

math.random, math.randomseed = native.random, native.randomseed

local insert = table.insert
function table.insert(t, ...)
  check_writable(t)
  return relay('insert', pcall(insert, t, ...))
end

local function resumed(ok, ...)
  if ok then return true, ... end
  return false, native.unwrap((...))
end
local resume = coroutine.resume
function coroutine.resume(...) return resumed(resume(...)) end

for _, name in ipairs { 'coroutine', 'math', 'string', 'table' } do
  globals[name] = protect(_G[name])
end
getmetatable('').__metatable = protect { __index = globals.string }

local redis = {
  call = native.call,
  pcall = native.pcall,
  sha1hex = native.sha1hex,
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
}
globals.redis = protect(redis)

local function is_one_string(...)
  return select('#', ...) == 1 and type((...)) == 'string'
end

function redis.error_reply(...)
  if not is_one_string(...) then return { err = 'ERR wrong number or type of arguments' } end
  local text = (...):match('^%-?(%Z*)')
  local code, message = text:match('^([^ ]*) (.*)$')
  if not code then code, message = 'ERR', text end
  return { err = code .. ' ' .. message:match('^[\r\n]*(.-)[\r\n]*$') }
end

function redis.status_reply(...)
  if not is_one_string(...) then return { err = 'ERR wrong number or type of arguments' } end
  return { ok = (...) }
end

function redis.setresp(...)
  if select('#', ...) ~= 1 then fail('ERR redis.setresp() requires one argument.') end
  local version = tonumber((...))
  if version ~= 2 and version ~= 3 then fail('ERR RESP version must be 2 or 3.') end
  native.setresp(version)
end

function redis.log(...)
  local level = ...
  if select('#', ...) < 2 then fail('ERR redis.log() requires two arguments or more.') end
  if type(level) ~= 'number' then fail('ERR First argument must be a number (log level).') end
  if level < redis.LOG_DEBUG or level > redis.LOG_WARNING then fail('ERR Invalid debug level.') end
end

-- There are no replicas that a script could keep its writes from.
function redis.set_repl(...)
  if select('#', ...) ~= 1 then fail('ERR redis.set_repl() requires two arguments.') end
  local flags = tonumber((...)) or 0
  if flags < redis.REPL_NONE or flags > redis.REPL_ALL then
    fail('ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.')
  end
end

function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end

-- There is one user, who may do everything that there is to do.
function redis.acl_check_cmd(name, ...)
  if name == nil then fail('ERR Please specify at least one argument for this redis.acl_check_cmd() call') end
  local infos = native.pcall('COMMAND', 'INFO', name)
  if not infos[1] then fail('ERR Invalid command passed to redis.acl_check_cmd()') end
  return true
end

function globals.next(t, ...) return relay('next', pcall(next, see_through(t), ...)) end
function globals.rawget(t, ...) return relay('rawget', pcall(rawget, see_through(t), ...)) end

function globals.pairs(t)
  if type(t) ~= 'table' then
    error(("bad argument #1 to 'pairs' (table expected, got %s)"):format(t == nil and 'nil' or type(t)), 2)
  end
  return next, see_through(t), nil
end

function globals.rawset(t, ...)
  check_writable(t)
  return relay('rawset', pcall(rawset, t, ...))
end

function globals.setmetatable(t, ...)
  check_writable(t)
  return relay('setmetatable', pcall(setmetatable, t, ...))
end

function globals.loadstring(chunk, ...)
  if type(chunk) == 'string' and chunk:byte(1) == 27 then return nil, "unexpected symbol near 'char(27)'" end
  return relay('loadstring', pcall(loadstring, chunk, ...))
end

function globals.load(reader, ...)
  local function text_only()
    local part = reader()
    if type(part) == 'string' and part:byte(1) == 27 then error("unexpected symbol near 'char(27)'", 0) end
    return part
  end
  return relay('load', pcall(load, type(reader) == 'function' and text_only or reader, ...))
end

-- Redis's own pcall: of a failed command the caller sees the text alone.
local function caught(ok, ...)
  if ok then return true, ... end
  local err = native.unwrap((...))
  return false, type(err) == 'table' and err.err or err
end
function globals.pcall(...) return caught(pcall(...)) end

function globals.xpcall(f, handler)
  return xpcall(f, function(err) return handler(native.unwrap(err)) end)
end

local metatable_of_globals = {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
}
setmetatable(globals, metatable_of_globals)
globals._G = protect(globals)

local shown_metatable = protect(metatable_of_globals)
function globals.getmetatable(...)
  local t = ...
  if t == globals._G then return shown_metatable end
  if contents_of[t] then return nil end
  return relay('getmetatable', pcall(getmetatable, ...))
end

return globals._G, function(script, keys, args)
  globals.KEYS, globals.ARGV = keys, args
  return xpcall(script, native.locate)
end
