//! Libraries of functions: their code and descriptions, and the Lua state that runs them.
//! <https://redis.io/docs/latest/develop/programmability/functions-intro/>

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::RegistryKey;

use super::budget::ScriptBudget;
use super::host::Host;
use super::shebang::{Metadata, Mode, is_read_only};
use super::vm::{Callable, SANDBOX_LOADS, Sandbox, Vm};
use crate::error::{self, Error};
use crate::keyspace::Hasher;
use crate::reply::Reply;

/// Libraries by name.
pub type Libraries = IndexMap<Bytes, Library, Hasher>;

/// A library: its code, and the functions that the code registered.
#[derive(Clone, Debug)]
pub struct Library {
    /// The code, including its first line.
    pub code: Bytes,
    /// The functions by name.
    pub functions: IndexMap<Bytes, Description, Hasher>,
}

/// The description of a function in `FUNCTION LIST`.
#[derive(Clone, Debug)]
pub struct Description {
    /// The description for people.
    pub text: Option<Bytes>,
    /// The flags of the function, for example `no-writes`.
    pub flags: Vec<&'static str>,
}

/// The treatment of existing libraries when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They are removed.
    Flush,
    /// They stay. If a restored library has the same name, the restore fails.
    Append,
    /// They stay, but restored libraries of the same name replace them.
    Replace,
}

/// A function that is ready to run, with its Lua state.
pub struct ReadyFunction {
    vm: Vm,
    function: Arc<RegistryKey>,
    name: Bytes,
    is_read_only: bool,
}

impl ReadyFunction {
    /// Calls the function, and returns the host with the reply.
    pub fn run(&self, keys: &[&[u8]], args: &[&[u8]], host: Box<dyn Host>) -> (Box<dyn Host>, Reply) {
        let ReadyFunction { vm, function, name, is_read_only } = self;
        vm.run(&Callable { function, name, is_read_only: *is_read_only }, keys, args, host)
    }
}

/// The functions of a library in Lua's registry, by name.
type Loaded = IndexMap<Bytes, Arc<RegistryKey>, Hasher>;

/// The libraries of one server.
#[derive(Default)]
pub struct Functions {
    libraries: Libraries,
    /// The bytes of the code of all libraries. Each command asks for them if `maxmemory` is set.
    code_bytes: usize,
    /// The names of the library and of the function, by the name of the function in lower case.
    names: IndexMap<Vec<u8>, (Bytes, Bytes), Hasher>,
    /// The Lua functions by library. If a library is missing here, its code runs again when one of
    /// its functions is called.
    loaded: IndexMap<Bytes, Loaded, Hasher>,
    vm: Option<Vm>,
    budget: ScriptBudget,
}

impl Functions {
    /// The libraries that the server knows.
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// How many bytes the code of all libraries has.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// Replaces the libraries.
    pub fn set_libraries(&mut self, libraries: &Libraries) {
        self.flush();
        for (name, library) in libraries {
            self.insert(name.clone(), library.clone());
        }
    }

    /// Sets the budget of each function, and of the code of each library, from now on.
    pub fn set_budget(&mut self, budget: ScriptBudget) {
        self.budget = budget;
        if let Some(vm) = &mut self.vm {
            vm.set_budget(budget).expect(SANDBOX_LOADS);
        }
    }

    /// Removes every library.
    pub fn flush(&mut self) {
        self.clear();
        if let Some(vm) = &self.vm {
            vm.json.reset();
        }
    }

    fn clear(&mut self) {
        self.libraries.clear();
        self.code_bytes = 0;
        self.names.clear();
        self.loaded.clear();
    }

    /// Runs the code of a library, and returns its name. If `replace` is set, it may replace
    /// a library of that name.
    ///
    /// # Errors
    /// The error of the library. If there is one, nothing has changed.
    pub fn load(&mut self, code: &[u8], replace: bool) -> Result<Bytes, Error> {
        let Metadata { name, .. } = Metadata::parse(code)?;
        if !replace && self.libraries.contains_key(&name) {
            return Err(Error::new([b"ERR Library '", &name[..], b"' already exists"].concat()));
        }
        let (library, loaded) = self.evaluate(code)?;
        self.check_names(&name, &library)?;
        // Redis puts a library that replaces another after all others, as it does with a new one.
        self.remove(&name);
        self.insert(name.clone(), library);
        self.loaded.insert(name.clone(), loaded);
        Ok(name)
    }

    /// Loads libraries in addition to the existing ones. Loads all of them or none.
    ///
    /// # Errors
    /// The error of one of the libraries.
    pub fn restore(&mut self, codes: &[Bytes], policy: RestorePolicy) -> Result<(), Error> {
        let before = self.libraries.clone();
        if policy == RestorePolicy::Flush {
            self.clear();
        }
        let outcome = codes.iter().try_for_each(|code| {
            let Metadata { name, .. } = Metadata::parse(code)?;
            if policy == RestorePolicy::Append && self.libraries.contains_key(&name) {
                return Err(Error::new([b"ERR Library ", &name[..], b" already exists"].concat()));
            }
            self.load(code, true).map(|_| ())
        });
        if outcome.is_err() {
            self.clear();
            before.into_iter().for_each(|(name, library)| self.insert(name, library));
        }
        outcome
    }

    /// Removes a library.
    ///
    /// # Errors
    /// There is no library of this name.
    pub fn delete(&mut self, name: &[u8]) -> Result<(), Error> {
        self.remove(name).map(|_| ()).ok_or(error::LIBRARY_NOT_FOUND)
    }

    fn insert(&mut self, name: Bytes, library: Library) {
        for own_name in library.functions.keys() {
            let names = self.names.entry(own_name.to_ascii_lowercase());
            names.or_insert_with(|| (name.clone(), own_name.clone()));
        }
        self.code_bytes += library.code.len();
        let replaced = self.libraries.insert(name, library);
        debug_assert!(replaced.is_none(), "a library that is replaced is removed first");
    }

    fn remove(&mut self, name: &[u8]) -> Option<Library> {
        self.loaded.swap_remove(name);
        let library = self.libraries.shift_remove(name)?;
        self.code_bytes -= library.code.len();
        for own_name in library.functions.keys() {
            self.names.swap_remove(&own_name.to_ascii_lowercase());
        }
        Some(library)
    }

    /// The names of the library and of the function, for the name of a function in any case of
    /// letters.
    pub fn lookup(&self, name: &[u8]) -> Option<&(Bytes, Bytes)> {
        self.names.get(&name.to_ascii_lowercase())
    }

    /// Takes out what is needed to run a function. The libraries stay.
    ///
    /// # Errors
    /// There is no such function, or it may not be called in this mode.
    pub fn take(
        &mut self,
        (library_name, name): &(Bytes, Bytes),
        mode: Mode,
    ) -> Result<ReadyFunction, Error> {
        let is_read_only = self.prepare(library_name, name, mode)?;
        let function = self.loaded.get(library_name).and_then(|loaded| loaded.get(name)).cloned();
        let function = function.ok_or(error::FUNCTION_NOT_FOUND)?;
        let vm = self.vm.take().ok_or(error::FUNCTION_NOT_FOUND)?;
        Ok(ReadyFunction { vm, function, name: name.clone(), is_read_only })
    }

    /// Puts the Lua state back after the function has run.
    pub fn put_back(&mut self, ready: ReadyFunction) {
        self.vm = Some(ready.vm);
    }

    /// Loads the library of a function if needed, and returns whether the function may not write.
    fn prepare(&mut self, library_name: &Bytes, name: &Bytes, mode: Mode) -> Result<bool, Error> {
        let library = self.libraries.get(library_name).ok_or(error::FUNCTION_NOT_FOUND)?;
        let description = library.functions.get(name).ok_or(error::FUNCTION_NOT_FOUND)?;
        let is_read_only = is_read_only(Some(&description.flags), mode)?;
        if !self.loaded.contains_key(library_name) {
            let code = library.code.clone();
            let (_, loaded) = self.evaluate(&code)?;
            self.loaded.insert(library_name.clone(), loaded);
        }
        Ok(is_read_only)
    }

    fn evaluate(&mut self, code: &[u8]) -> Result<(Library, Loaded), Error> {
        let Metadata { body, .. } = Metadata::parse(code)?;
        let budget = self.budget;
        let vm = self.vm.get_or_insert_with(|| Vm::new(Sandbox::Functions, budget).expect(SANDBOX_LOADS));
        let compiled = vm.compile(body);
        let compiled = compiled
            .map_err(|message| Error::new([b"ERR Error compiling function: ", &message[..]].concat()))?;
        let registered = vm
            .load(&compiled)
            .map_err(|error| Error::new([b"ERR Error registering functions: ", error.as_bytes()].concat()))?;
        if registered.is_empty() {
            return Err(Error::from_static("ERR No functions registered"));
        }
        let mut library = Library { code: Bytes::copy_from_slice(code), functions: IndexMap::default() };
        let mut loaded = Loaded::default();
        for (name, registered) in registered {
            let description = Description { text: registered.description, flags: registered.flags };
            library.functions.insert(name.clone(), description);
            loaded.insert(name, Arc::new(registered.callback));
        }
        Ok((library, loaded))
    }

    /// Checks that no other library has a function of the same name.
    fn check_names(&self, library_name: &Bytes, library: &Library) -> Result<(), Error> {
        for name in library.functions.keys() {
            if self.lookup(name).is_some_and(|(other, _)| other != library_name) {
                return Err(Error::new([b"ERR Function ", &name[..], b" already exists"].concat()));
            }
        }
        Ok(())
    }
}
