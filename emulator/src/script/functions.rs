//! Libraries of functions: what the server knows of them, and the Lua state that runs them.
//! <https://redis.io/docs/latest/develop/programmability/functions-intro/>

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::Function;

use super::shebang::Metadata;
use super::vm::{Callable, Sandbox, Vm};
use super::{Host, Mode, SANDBOX_LOADS, ScriptBudget, is_read_only};
use crate::error::{self, Error};
use crate::keyspace::Hasher;
use crate::reply::Reply;

/// Libraries by name.
pub type Libraries = IndexMap<Bytes, Library, Hasher>;

/// A library: its code, and what that registered.
#[derive(Clone, Debug)]
pub struct Library {
    /// With its first line.
    pub code: Bytes,
    /// By name.
    pub functions: IndexMap<Bytes, Description, Hasher>,
}

/// What `FUNCTION LIST` tells of a function.
#[derive(Clone, Debug)]
pub struct Description {
    /// For people.
    pub text: Option<Bytes>,
    /// `no-writes` and its kind.
    pub flags: Vec<&'static str>,
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// They go.
    Flush,
    /// They stay, and none of their names may come again.
    Append,
    /// They stay, but for those whose names come again.
    Replace,
}

/// A function that is to run, and the Lua state in which it does.
pub struct Ready {
    vm: Vm,
    function: Function,
    name: Bytes,
    is_read_only: bool,
}

impl Ready {
    /// Calls it, and gives the host back with what it returned.
    pub fn run(&self, keys: &[&[u8]], args: &[&[u8]], host: Box<dyn Host>) -> (Box<dyn Host>, Reply) {
        let Ready { vm, function, name, is_read_only } = self;
        vm.run(&Callable { function, name, is_read_only: *is_read_only }, keys, args, host)
    }
}

/// The libraries that one server knows.
#[derive(Default)]
pub struct Functions {
    libraries: Libraries,
    /// What their functions are in the Lua state, by library. Made anew, when one is called, where it does not stand here.
    loaded: IndexMap<Bytes, IndexMap<Bytes, Function, Hasher>, Hasher>,
    vm: Option<Vm>,
    budget: ScriptBudget,
}

impl Functions {
    /// What the server knows.
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// Knows these libraries and no others.
    pub fn set_libraries(&mut self, libraries: &Libraries) {
        self.flush();
        self.libraries.clone_from(libraries);
    }

    /// What each function, and the code of each library, may take from now on.
    pub fn set_budget(&mut self, budget: ScriptBudget) {
        self.budget = budget;
        if let Some(vm) = &mut self.vm {
            vm.set_budget(budget).expect(SANDBOX_LOADS);
        }
    }

    /// Forgets every library.
    pub fn flush(&mut self) {
        self.libraries.clear();
        self.loaded.clear();
        if let Some(vm) = &self.vm {
            vm.json.reset();
        }
    }

    /// Runs the code of a library, and gives its name; `replace` says whether it may take the place of one of the same name.
    ///
    /// # Errors
    /// Whatever is wrong with it: then nothing has changed.
    pub fn load(&mut self, code: &[u8], replace: bool) -> Result<Bytes, Error> {
        let Metadata { name, .. } = Metadata::parse(code)?;
        if !replace && self.libraries.contains_key(&name) {
            return Err(Error::new([b"ERR Library '", &name[..], b"' already exists"].concat()));
        }
        let (library, loaded) = self.evaluate(code)?;
        self.check_names(&name, &library)?;
        // Redis puts a library that replaces another behind all others, as it does with one that is new.
        self.libraries.shift_remove(&name);
        self.libraries.insert(name.clone(), library);
        self.loaded.insert(name.clone(), loaded);
        Ok(name)
    }

    /// Loads libraries beside those that are there, or none of them.
    ///
    /// # Errors
    /// Whatever is wrong with one of them.
    pub fn restore(&mut self, codes: &[Bytes], policy: Policy) -> Result<(), Error> {
        let before = self.libraries.clone();
        if policy == Policy::Flush {
            self.libraries.clear();
        }
        let outcome = codes.iter().try_for_each(|code| {
            let Metadata { name, .. } = Metadata::parse(code)?;
            if policy == Policy::Append && self.libraries.contains_key(&name) {
                return Err(Error::new([b"ERR Library ", &name[..], b" already exists"].concat()));
            }
            self.load(code, true).map(|_| ())
        });
        if outcome.is_err() {
            self.libraries = before;
            self.loaded.clear();
        }
        outcome
    }

    /// Forgets a library.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn delete(&mut self, name: &[u8]) -> Result<(), Error> {
        self.loaded.shift_remove(name);
        self.libraries.shift_remove(name).map(|_| ()).ok_or(error::LIBRARY_NOT_FOUND)
    }

    /// The function of this name, in any case: its library's name, and its own.
    pub fn lookup(&self, name: &[u8]) -> Option<(Bytes, Bytes)> {
        self.libraries.iter().find_map(|(library_name, library)| {
            let own_name = library.functions.keys().find(|own_name| own_name.eq_ignore_ascii_case(name))?;
            Some((library_name.clone(), own_name.clone()))
        })
    }

    /// Takes out what is needed to run a function: what is known of the libraries stays.
    ///
    /// # Errors
    /// There is no such function, or it may not be called in this way.
    pub fn take(&mut self, (library_name, name): &(Bytes, Bytes), mode: Mode) -> Result<Ready, Error> {
        let is_read_only = self.prepare(library_name, name, mode)?;
        let function = self.loaded.get(library_name).and_then(|loaded| loaded.get(name)).cloned();
        let function = function.ok_or(error::FUNCTION_NOT_FOUND)?;
        let vm = self.vm.take().ok_or(error::FUNCTION_NOT_FOUND)?;
        Ok(Ready { vm, function, name: name.clone(), is_read_only })
    }

    /// It has run.
    pub fn put_back(&mut self, ready: Ready) {
        self.vm = Some(ready.vm);
    }

    /// Sees that a function is loaded, and says whether it may write.
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

    fn evaluate(&mut self, code: &[u8]) -> Result<(Library, IndexMap<Bytes, Function, Hasher>), Error> {
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
        let mut loaded = IndexMap::default();
        for (name, registered) in registered {
            let description = Description { text: registered.description, flags: registered.flags };
            library.functions.insert(name.clone(), description);
            loaded.insert(name, registered.callback);
        }
        Ok((library, loaded))
    }

    /// A function's name belongs to one library.
    fn check_names(&self, library_name: &Bytes, library: &Library) -> Result<(), Error> {
        for name in library.functions.keys() {
            if self.lookup(name).is_some_and(|(other, _)| other != *library_name) {
                return Err(Error::new([b"ERR Function ", &name[..], b" already exists"].concat()));
            }
        }
        Ok(())
    }
}
