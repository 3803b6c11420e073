//! The scripts that one server knows, and the Lua state that runs them.

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::RegistryKey;

use super::budget::ScriptBudget;
use super::host::Host;
use super::sha::{Sha, sha1_hex};
use super::shebang::{Mode, Shebang, is_read_only};
use super::vm::{Callable, SANDBOX_LOADS, Sandbox, Vm};
use crate::error::{self, Error};
use crate::keyspace::Hasher;
use crate::reply::Reply;

/// The scripts that one server knows, by SHA1, and the Lua state that runs them.
#[derive(Default)]
pub struct Scripts {
    known: Known,
    /// The bytes of all known sources. Each command asks for them if `maxmemory` is set.
    known_bytes: usize,
    /// The SHA1 of each loaded source, because a lookup is much faster than computing it.
    shas: IndexMap<Bytes, Sha, Hasher>,
    /// Created when the first script is compiled, because to create a Lua state is slow. It is in
    /// a box, so that taking it out for a script moves only a pointer.
    loaded: Option<Box<Loaded>>,
    budget: ScriptBudget,
}

/// A Lua state, with the scripts that are compiled in it.
struct Loaded {
    vm: Vm,
    compiled: IndexMap<Sha, Compiled, Hasher>,
}

struct Compiled {
    /// The function in Lua's registry.
    function: RegistryKey,
    /// The flags of a script whose first line is a shebang.
    flags: Option<Vec<&'static str>>,
}

/// The sources of scripts, by SHA1.
pub type Known = IndexMap<Sha, Bytes, Hasher>;

impl Scripts {
    /// Compiles a script and stores it. A script is known once it compiles, even if it never
    /// succeeds.
    ///
    /// # Errors
    /// The error of the compiler, in Redis's words.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha, Error> {
        let sha = self.sha(source);
        if !self.known.contains_key(&sha) {
            self.compile(&sha, source)?;
            let source = Bytes::copy_from_slice(source);
            self.known.insert(sha, source.clone());
            self.known_bytes += source.len();
            if self.shas.len() < SHAS_MAX {
                self.shas.insert(source, sha);
            }
        }
        Ok(sha)
    }

    /// The SHA1 of a script, known or not.
    pub fn sha(&self, source: &[u8]) -> Sha {
        self.shas.get(source).copied().unwrap_or_else(|| sha1_hex(source))
    }

    /// The SHA1 of a known script in lower case. `sha` may have digits of either case.
    pub fn lookup(&self, sha: &[u8]) -> Option<Sha> {
        let mut sha: Sha = sha.try_into().ok()?;
        sha.make_ascii_lowercase();
        self.known.contains_key(&sha).then_some(sha)
    }

    /// The scripts that clients can call by their SHA1.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// How many bytes the sources of the known scripts have.
    pub fn source_bytes(&self) -> usize {
        self.known_bytes
    }

    /// Replaces the known scripts.
    pub fn set_known(&mut self, known: &Known) {
        self.known.clone_from(known);
        self.known_bytes = known.values().map(Bytes::len).sum();
    }

    /// Sets the budget of each script from now on.
    pub fn set_budget(&mut self, budget: ScriptBudget) {
        self.budget = budget;
        if let Some(loaded) = &mut self.loaded {
            loaded.vm.set_budget(budget).expect(SANDBOX_LOADS);
        }
    }

    /// Whether scripts have left no state except data: the settings of `cjson` are the defaults.
    pub fn has_default_settings(&self) -> bool {
        self.loaded.as_ref().is_none_or(|loaded| loaded.vm.json.is_default())
    }

    /// Removes every script. Compiled code stays in the Lua state, where clients cannot see it.
    pub fn flush(&mut self) {
        self.known.clear();
        self.known_bytes = 0;
        if let Some(loaded) = &self.loaded {
            loaded.vm.json.reset();
        }
    }

    /// Takes out what is needed to run a known script. The sources stay.
    ///
    /// # Errors
    /// There is no such script, or it does not compile.
    pub fn take(&mut self, sha: &Sha) -> Result<ReadyScript, Error> {
        let compiled = self.loaded.as_ref().and_then(|loaded| loaded.compiled.get_index_of(sha));
        let idx = compiled.map_or_else(|| self.compile_known(sha), Ok)?;
        let loaded = self.loaded.take().ok_or(error::NO_SCRIPT)?;
        Ok(ReadyScript { loaded, idx })
    }

    /// Puts the Lua state back after the script has run.
    ///
    /// Returns whether the script has changed what it shares with the next scripts in Lua: the
    /// settings of `cjson`.
    pub fn put_back(&mut self, ReadyScript { loaded, .. }: ReadyScript) -> bool {
        let has_changed_settings = loaded.vm.json.take_change();
        self.loaded = Some(loaded);
        has_changed_settings
    }

    /// Compiles a script that is known, and returns its place among the compiled ones.
    fn compile_known(&mut self, sha: &Sha) -> Result<usize, Error> {
        let source = self.known.get(sha).cloned().ok_or(error::NO_SCRIPT)?;
        self.compile(sha, &source)
    }

    /// Compiles a script, unless it is compiled, and returns its place among the compiled ones.
    fn compile(&mut self, sha: &Sha, source: &[u8]) -> Result<usize, Error> {
        if let Some(idx) = self.loaded.as_ref().and_then(|loaded| loaded.compiled.get_index_of(sha)) {
            return Ok(idx);
        }
        let Shebang { body, flags } = Shebang::parse(source)?;
        let Loaded { vm, compiled } = &mut **self.loaded.get_or_insert_with(|| {
            let vm = Vm::new(Sandbox::Scripts, self.budget).expect(SANDBOX_LOADS);
            Box::new(Loaded { vm, compiled: IndexMap::default() })
        });
        let function = vm.compile(body).and_then(|code| vm.keep(code)).map_err(|message| {
            Error::new([b"ERR Error compiling script (new function): ", &message[..]].concat())
        })?;
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        Ok(compiled.insert_full(*sha, Compiled { function, flags }).0)
    }
}

/// A script that is ready to run, with its Lua state.
pub struct ReadyScript {
    loaded: Box<Loaded>,
    /// The place of the script among the compiled ones.
    idx: usize,
}

impl ReadyScript {
    /// Runs the script, and returns the host with the reply.
    pub fn run(
        &self,
        mode: Mode,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<dyn Host>,
    ) -> (Box<dyn Host>, Reply) {
        let Loaded { vm, compiled } = &*self.loaded;
        let (name, Compiled { function, flags }) =
            compiled.get_index(self.idx).expect("it stays compiled while it is taken out");
        match is_read_only(flags.as_deref(), mode) {
            Ok(is_read_only) => vm.run(&Callable { function, name, is_read_only }, keys, args, host),
            Err(error) => (host, Reply::Error(error)),
        }
    }
}

/// How many scripts stay compiled, because their code counts as memory of each script that runs.
/// When this number is reached, all are dropped and compiled again when they are used.
const COMPILED_MAX: usize = 1000;
/// How many sources are stored with their SHA1.
const SHAS_MAX: usize = 1000;

/// The flags in the first line of a script, if that line is a valid shebang for Redis.
pub fn flags(source: &[u8]) -> Option<Vec<&'static str>> {
    Shebang::parse(source).ok()?.flags
}
