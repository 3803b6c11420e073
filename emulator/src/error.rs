//! Redis 7.0's error texts, byte for byte, in one place.
//!
//! An [`Error`] is what a client gets after the `-` of a RESP error: a code word, a space, a
//! message.
//!
//! It knows nothing of the wire format: `resp` writes it and replaces line breaks.

use bytes::Bytes;

/// An error reply: code, space, message, without the leading `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Bytes);

impl Error {
    /// An error whose whole text is known at compile time.
    pub const fn from_static(text: &'static str) -> Error {
        Error(Bytes::from_static(text.as_bytes()))
    }

    /// An error with the given text; the first word is its code (`ERR`, `WRONGTYPE`, …).
    pub fn new(text: impl Into<Bytes>) -> Error {
        Error(text.into())
    }

    /// The word before the first space; `ERR` if the text has only one word.
    pub fn code(&self) -> &[u8] {
        self.0.iter().position(|&byte| byte == b' ').map_or(b"ERR", |space| &self.0[..space])
    }

    /// The text as bytes. It may not be UTF-8, because scripts choose it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for Error {}

macro_rules! texts {
    ($($name:ident = $text:literal;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: Error = Error::from_static($text);)*
    };
}

texts! {
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    SYNTAX = "ERR syntax error";
    NOT_AN_INTEGER = "ERR value is not an integer or out of range";
    NOT_A_FLOAT = "ERR value is not a valid float";
    NAN_OR_INFINITY = "ERR value is NaN or Infinity";
    OUT_OF_RANGE = "ERR value is out of range";
    PICKED_TOO_MANY = "ERR count is too large: with repetitions, the emulator returns at most 1048576 elements, and at most 512 MB";
    NOT_POSITIVE = "ERR value is out of range, must be positive";
    COUNT_NOT_POSITIVE = "ERR count should be greater than 0";
    COUNT_NEGATIVE = "ERR COUNT can't be negative";
    LIMIT_NEGATIVE = "ERR LIMIT can't be negative";
    MAXLEN_NEGATIVE = "ERR MAXLEN can't be negative";
    RANK_ZERO = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";
    NO_SUCH_KEY = "ERR no such key";
    INDEX_OUT_OF_RANGE = "ERR index out of range";
    OVERFLOW = "ERR increment or decrement would overflow";
    DECREMENT_OVERFLOW = "ERR decrement would overflow";
    HASH_NOT_A_FLOAT = "ERR hash value is not a float";
    HASH_NOT_AN_INTEGER = "ERR hash value is not an integer";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    INVALID_CURSOR = "ERR invalid cursor";
    FREQUENCY_NOT_TRACKED = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    SORT_NOT_A_FLOAT = "ERR One or more scores can't be converted into double";
    LCS_NOT_STRINGS = "ERR The specified keys must contain string values";
    LCS_IDX_AND_LEN = "ERR If you want both the length and indexes, please just use IDX.";
    LCS_TOO_LARGE = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    INCREMENT_NOT_FINITE = "ERR increment would produce NaN or Infinity";
    SAME_OBJECT = "ERR source and destination objects are the same";
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
    DB_NOT_AN_INT = "ERR value is out of range, value must between -2147483648 and 2147483647";
    DB_OUT_OF_RANGE = "ERR DB index is out of range";
    NESTED_MULTI = "ERR MULTI calls can not be nested";
    EXEC_WITHOUT_MULTI = "ERR EXEC without MULTI";
    DISCARD_WITHOUT_MULTI = "ERR DISCARD without MULTI";
    WATCH_IN_MULTI = "ERR WATCH inside MULTI is not allowed";
    NOT_IN_MULTI = "ERR Command not allowed inside a transaction";
    SSUBSCRIBE_IN_MULTI = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
    EXEC_ABORT = "EXECABORT Transaction discarded because of previous errors.";
    NO_SCRIPT = "NOSCRIPT No matching script. Please use EVAL.";
    WRITE_FLAG_IN_RO = "ERR Can not execute a script with write flag using *_ro command.";
    LIBRARY_NAME = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    LIBRARY_NOT_FOUND = "ERR Library not found";
    FUNCTION_NOT_FOUND = "ERR Function not found";
    FUNCTION_FLUSH_MODE = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
    FUNCTION_NUMKEYS = "ERR Bad number of keys provided";
    NOT_BUSY = "NOTBUSY No scripts in execution right now.";
    BUSY_SCRIPT = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    BUSY_FUNCTION = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    UNKILLABLE = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";
    KILLED = "ERR Script killed by user with SCRIPT KILL...";
    PAYLOAD = "ERR DUMP payload version or checksum are wrong";
    READ_ONLY_SCRIPT = "ERR Write commands are not allowed from read-only scripts.";
    NUMKEYS_NEGATIVE = "ERR Number of keys can't be negative";
    NUMKEYS_NOT_POSITIVE = "ERR numkeys should be greater than 0";
    NUMKEYS_TOO_MANY = "ERR Number of keys can't be greater than number of args";
    NO_AUTH = "NOAUTH Authentication required.";
    DEBUG_NOT_ALLOWED = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    NO_AUTH_HELLO = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
    AUTH_WITHOUT_PASSWORD = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    WRONG_PASSWORD = "WRONGPASS invalid username-password pair or user is disabled.";
    LOADING = "LOADING Redis is loading the dataset in memory";
    OOM = "OOM command not allowed when used memory > 'maxmemory'.";
    READONLY = "READONLY You can't write against a read only replica.";
    BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    MASTERDOWN = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    STALE_IN_SCRIPT = "ERR Can not execute the command on a stale replica";
    NOREPLICAS = "NOREPLICAS Not enough good replicas to write.";
    CLUSTERDOWN = "CLUSTERDOWN The cluster is down";
    CLUSTERDOWN_READS = "CLUSTERDOWN The cluster is down and only accepts read commands";
    SLOT_NOT_SERVED = "CLUSTERDOWN Hash slot not served";
    CROSSSLOT = "CROSSSLOT Keys in request don't hash to the same slot";
    SCRIPT_CLUSTERDOWN = "ERR Script attempted to execute a command while the cluster is down";
    SCRIPT_CLUSTERDOWN_READS = "ERR Script attempted to execute a write command while the cluster is down and readonly";
    SCRIPT_NON_LOCAL_KEY = "ERR Script attempted to access a non local key in a cluster node";
    SCRIPT_CROSSSLOT = "ERR Script attempted to access keys that do not hash to the same slot";
    NO_CLUSTER_SCRIPT = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
    TRYAGAIN = "TRYAGAIN Multiple keys request during rehashing of slot";
    RESET = "ERR the server was reset before the command arrived";
    ROLE_CHANGED = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    TIMEOUT_NOT_A_FLOAT = "ERR timeout is not a float or out of range";
    TIMEOUT_NOT_AN_INTEGER = "ERR timeout is not an integer or out of range";
    WAIT_ON_REPLICA = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.";
    TIMEOUT_NEGATIVE = "ERR timeout is negative";
    PAUSE_MODE = "ERR CLIENT PAUSE mode must be WRITE or ALL";
    UNBLOCK_REASON = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
    NO_CLUSTER = "ERR This instance has cluster support disabled";
    NO_SUCH_CLIENT = "ERR No such client";
    CLIENT_ID_NOT_POSITIVE = "ERR client-id should be greater than 0";
    INVALID_CLIENT_ID = "ERR Invalid client ID";
    TRACKING_REDIRECT = "ERR The client ID you want redirect to does not exist";
    TRACKING_ONE_REDIRECT = "ERR A client can only redirect to a single other client";
    TRACKING_PREFIX = "ERR PREFIX option requires BCAST mode to be enabled";
    TRACKING_BCAST_SWITCH = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.";
    TRACKING_BCAST_OPT = "ERR OPTIN and OPTOUT are not compatible with BCAST";
    TRACKING_OPTS = "ERR You can't specify both OPTIN mode and OPTOUT mode";
    TRACKING_OPT_SWITCH = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.";
    CACHING_MODE = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    CACHING_YES = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
    CACHING_NO = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
    NO_PROTO = "NOPROTO unsupported protocol version";
    NX_AND_XX = "ERR NX and XX, GT or LT options at the same time are not compatible";
    GT_AND_LT = "ERR GT and LT options at the same time are not compatible";
    ZADD_NX_AND_XX = "ERR XX and NX options at the same time are not compatible";
    ZADD_GT_LT_NX = "ERR GT, LT, and/or NX options at the same time are not compatible";
    ZADD_INCR_PAIRS = "ERR INCR option supports a single increment-element pair";
    MIN_OR_MAX_NOT_A_FLOAT = "ERR min or max is not a float";
    MIN_OR_MAX_NOT_A_STRING = "ERR min or max not valid string range item";
    SCORE_NAN = "ERR resulting score is not a number (NaN)";
    WEIGHT_NOT_A_FLOAT = "ERR weight value is not a float";
    LIMIT_WITHOUT_RANGE = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    WITHSCORES_WITH_BYLEX = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
    CLIENT_NAME = "ERR Client names cannot contain spaces, newlines or special characters.";
    SCRIPT_FLUSH_MODE = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
    NO_KEY_ARGUMENTS = "ERR The command has no key arguments";
    INVALID_COMMAND = "ERR Invalid command specified";
    INVALID_ARGUMENTS = "ERR Invalid arguments specified for command";
    INVALID_ARGUMENT_COUNT = "ERR Invalid number of arguments specified for command";
    REPLICA = "ERR Replica can't interact with the keyspace";
    MAX_CLIENTS = "ERR max number of clients reached";
    PROTOCOL_MULTIBULK_LENGTH = "ERR Protocol error: invalid multibulk length";
    PROTOCOL_BULK_LENGTH = "ERR Protocol error: invalid bulk length";
    PROTOCOL_MULTIBULK_UNAUTHENTICATED = "ERR Protocol error: unauthenticated multibulk length";
    PROTOCOL_BULK_UNAUTHENTICATED = "ERR Protocol error: unauthenticated bulk length";
    PROTOCOL_INLINE_TOO_BIG = "ERR Protocol error: too big inline request";
    PROTOCOL_MULTIBULK_TOO_BIG = "ERR Protocol error: too big mbulk count string";
    PROTOCOL_BULK_TOO_BIG = "ERR Protocol error: too big bulk count string";
    PROTOCOL_QUOTES = "ERR Protocol error: unbalanced quotes in request";
}

/// The errors that Redis returns when it cannot do its work for now.
pub const OF_A_SERVER_IN_TROUBLE: [Error; 8] =
    [LOADING, OOM, READONLY, BUSY, MASTERDOWN, NOREPLICAS, CLUSTERDOWN, TRYAGAIN];

/// `ERR unknown command 'x', with args beginning with: 'a' 'b' `, where each part is cut to 128
/// bytes as in Redis.
pub fn unknown_command(argv: &[&[u8]]) -> Error {
    const LIMIT: usize = 128;
    let mut args = Vec::new();
    for arg in &argv[1..] {
        if args.len() >= LIMIT {
            break;
        }
        args.push(b'\'');
        let room = LIMIT - (args.len() - 1);
        args.extend_from_slice(c_string(arg, room));
        args.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_string(argv[0], LIMIT));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&args);
    Error::new(text)
}

/// `ERR the emulator has no streams, and so no XADD. Redis has it.`
pub fn not_emulated(name: &[u8], what: &str) -> Error {
    let name = name.escape_ascii().to_string().to_uppercase();
    Error::new(format!("ERR the emulator has no {what}, and so no {name}. Redis has it."))
}

/// `ERR unknown subcommand 'x'. Try CLIENT HELP.`
pub fn unknown_subcommand(container: &str, subcommand: &[u8]) -> Error {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(c_string(subcommand, 128));
    text.extend_from_slice(format!("'. Try {} HELP.", container.to_uppercase()).as_bytes());
    Error::new(text)
}

/// `ERR unknown subcommand or wrong number of arguments for 'x'. Try PUBSUB HELP.`
pub fn unknown_subcommand_or_arity(container: &str, subcommand: &[u8]) -> Error {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(c_string(subcommand, 128));
    text.extend_from_slice(format!("'. Try {} HELP.", container.to_uppercase()).as_bytes());
    Error::new(text)
}

/// `ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are
/// allowed in this context`
pub fn only_pubsub(name: &str) -> Error {
    Error::new(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    ))
}

/// `ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single client must
/// not overlap.`
pub fn prefixes_overlap(prefix: &[u8], which: &str, other: &[u8]) -> Error {
    let [prefix, other] = [prefix, other].map(|prefix| c_string(prefix, usize::MAX));
    let (middle, end) =
        (format!("' overlaps with {which} prefix '"), "'. Prefixes for a single client must not overlap.");
    Error::new([b"ERR Prefix '", prefix, middle.as_bytes(), other, end.as_bytes()].concat())
}

/// `ERR Unsupported option x`
pub fn expire_option(option: &[u8]) -> Error {
    Error::new([b"ERR Unsupported option ", c_string(option, usize::MAX)].concat())
}

/// `ERR Syntax error in HELLO option 'x'`
pub fn hello_option(option: &[u8]) -> Error {
    Error::new([b"ERR Syntax error in HELLO option '", c_string(option, usize::MAX), b"'"].concat())
}

/// The text that C's `%.*s` prints: up to the first NUL, and at most `limit` bytes.
fn c_string(text: &[u8], limit: usize) -> &[u8] {
    let end = text.iter().take(limit).take_while(|&&byte| byte != 0).count();
    &text[..end]
}

/// `EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command`
pub fn exec_abort(because: &Error) -> Error {
    let because = because.as_bytes();
    let because = because.strip_prefix(b"ERR ").unwrap_or(because);
    Error::new([b"EXECABORT Transaction discarded because of: ", because].concat())
}

/// `ERR wrong number of arguments for 'get' command`; subcommands are named `client|id`.
pub fn wrong_arity(full_name: &str) -> Error {
    Error::new(format!("ERR wrong number of arguments for '{full_name}' command"))
}

/// `ERR invalid expire time in 'set' command`
pub fn invalid_expire(name: &str) -> Error {
    Error::new(format!("ERR invalid expire time in '{name}' command"))
}

/// `ERR value is out of range, value must between 0 and 255`
pub fn out_of_bounds(min: i64, max: i64) -> Error {
    Error::new(format!("ERR value is out of range, value must between {min} and {max}"))
}

/// `ERR at least 1 input key is needed for 'zinterstore' command`
pub fn no_input_keys(name: &str) -> Error {
    Error::new(format!("ERR at least 1 input key is needed for '{name}' command"))
}

/// `ERR Protocol error: expected '$', got 'x'`
pub fn expected_dollar(got: u8) -> Error {
    let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
    text.extend_from_slice(&[got, b'\'']);
    Error::new(text)
}

/// `ERR Unknown option or number of arguments for CONFIG SET - 'x'`
pub fn unknown_option(name: &[u8]) -> Error {
    Error::new([b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat())
}

/// `ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an
/// integer`
pub fn config_set(name: &[u8], reason: &str) -> Error {
    let mut text = b"ERR CONFIG SET failed (possibly related to argument '".to_vec();
    text.extend_from_slice(name);
    text.extend_from_slice(b"') - ");
    text.extend_from_slice(reason.as_bytes());
    Error::new(text)
}
