-- The world that a script sees: the globals that Redis 7.0 allows, read-only, and the `redis` table.
-- `native` holds what Rust provides; the function that is returned runs a compiled script.
local native = ...

local error, pcall, xpcall, type, tostring = error, pcall, xpcall, type, tostring
local rawset, setmetatable, next = rawset, setmetatable, next

local READONLY = 'Attempt to modify a readonly table'
local contents_of = setmetatable({}, { __mode = 'k' })

local function protect(contents)
  local proxy = setmetatable({}, {
    __index = contents,
    __newindex = function() error(READONLY, 2) end,
    __metatable = {},
  })
  contents_of[proxy] = contents
  return proxy
end

local function text_only(chunk)
  if type(chunk) == 'string' and chunk:byte(1) == 27 then
    error('attempt to load chunk with wrong mode', 0)
  end
  return chunk
end

local globals = {}
for _, name in ipairs {
  '_VERSION', 'assert', 'collectgarbage', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'load', 'loadstring', 'next',
  'rawequal', 'rawget', 'select', 'tonumber', 'tostring', 'type', 'unpack',
} do
  globals[name] = _G[name]
end

math.random, math.randomseed = native.random, native.randomseed
for _, name in ipairs { 'coroutine', 'math', 'string', 'table' } do
  globals[name] = protect(_G[name])
end
getmetatable('').__metatable = { __index = globals.string }

globals.redis = protect {
  call = native.call,
  pcall = native.pcall,
  error_reply = native.error_reply,
  status_reply = native.status_reply,
  sha1hex = native.sha1hex,
  log = native.log,
  replicate_commands = function() return true end,
  set_repl = function() end,
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

-- Iteration sees through the proxies.
local function iterable(t)
  return contents_of[t] or t
end

globals.next = function(t, key) return next(iterable(t), key) end
globals.pairs = function(t) return next, iterable(t), nil end
globals.rawget = function(t, key) return iterable(t)[key] end

globals.rawset = function(t, key, value)
  if contents_of[t] then error(READONLY, 0) end
  return rawset(t, key, value)
end

globals.setmetatable = function(t, metatable)
  if contents_of[t] then error(READONLY, 0) end
  return setmetatable(t, metatable)
end

local loadstring, load = loadstring, load
globals.loadstring = function(chunk, name) return loadstring(text_only(chunk), name) end
globals.load = function(reader, name) return load(function() return text_only(reader()) end, name) end

-- A failed command is an error value of Rust's: a script that catches it sees its text.
local function caught(ok, ...)
  if ok then return true, ... end
  return false, native.caught((...))
end

globals.pcall = function(...) return caught(pcall(...)) end

globals.xpcall = function(f, handler)
  return xpcall(f, function(err) return handler(native.caught(err)) end)
end

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
globals._G = protect(globals)

return globals, globals._G, function(script) return xpcall(script, native.locate) end
