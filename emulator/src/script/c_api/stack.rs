//! Lua's stack, as far as one C function may use it.
//!
//! Lua does not check whether a value that C pushes fits. A value too much overwrites memory. So in
//! this module only the methods of [`Stack`] push, and a [`Stack`] knows how many slots are free.
//!
//! A function that uses slots states their number under `# Stack`. It begins with
//! [`Stack::at_most`], which returns a stack with so many slots and no more. Functions of Lua that
//! push something themselves, such as `luaL_where`, count as the function that calls them.
//!
//! A debug build ends the process if a function states more slots than are free, or pushes more
//! than it states. So each test that calls a function checks its statement, and no test needs to
//! fill a stack.

use std::ffi::{CStr, c_char, c_int, c_void};

use mlua::ffi::{self, lua_State};

use super::name::{Name, STATE_UPVALUE};

/// A Lua stack and the height up to which it may be used.
#[derive(Clone, Copy)]
pub(super) struct Stack {
    pub state: *mut lua_State,
    /// The height that the stack has when no slot is free.
    height_max: c_int,
}

impl Stack {
    /// The stack of a C function that has just begun. It may use 20 slots beside its arguments.
    ///
    /// # Safety
    /// `state` is valid, and Lua has just called the function that is running.
    pub unsafe fn of_function(state: *mut lua_State) -> Stack {
        // SAFETY: the caller vouches for the state.
        let height = unsafe { ffi::lua_gettop(state) };
        Stack { state, height_max: height + ffi::LUA_MINSTACK }
    }

    /// The stack with at least so many free slots, or `None` if Lua has no memory for them or gives
    /// a function no more. Never raises.
    ///
    /// # Safety
    /// `state` is valid, and belongs to the function that is running.
    pub unsafe fn with_room(state: *mut lua_State, n_slots: c_int) -> Option<Stack> {
        // SAFETY: the caller vouches for the state. This Lua catches the error of its allocator.
        unsafe {
            let is_there = ffi::lua_checkstack(state, n_slots) != 0;
            is_there.then(|| Stack { state, height_max: ffi::lua_gettop(state) + n_slots })
        }
    }

    /// As [`Stack::with_room`], or raises.
    ///
    /// # Raises
    /// There is no room. The error has this text.
    ///
    /// # Safety
    /// As for [`Stack::with_room`].
    pub unsafe fn grown(state: *mut lua_State, n_slots: c_int, error: &CStr) -> Stack {
        // SAFETY: the frame owns nothing.
        unsafe {
            Stack::with_room(state, n_slots).unwrap_or_else(|| {
                ffi::luaL_error(state, error.as_ptr());
                unreachable!("`luaL_error` does not return")
            })
        }
    }

    /// The stack with so many free slots and no more: those that the calling function uses.
    #[inline]
    pub fn at_most(self, n_slots: c_int) -> Stack {
        self.expect(n_slots);
        Stack { height_max: self.height() + n_slots, ..self }
    }

    /// How many values are on the stack. Never raises.
    #[inline]
    pub fn height(self) -> c_int {
        // SAFETY: the state is valid as long as the function runs that the stack belongs to.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// How many slots are free. Never raises.
    #[inline]
    pub fn n_free(self) -> c_int {
        self.height_max - self.height()
    }

    /// Ends the process of a debug build if fewer slots are free.
    #[inline]
    fn expect(self, n_slots: c_int) {
        if cfg!(debug_assertions) && self.n_free() < n_slots {
            overflow(n_slots, self.n_free());
        }
    }

    /// Pushes the text of a name. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`super::running`].
    pub unsafe fn push_name(self, name: Name) {
        // SAFETY: the upvalue exists.
        unsafe { self.push_copy(ffi::lua_upvalueindex(STATE_UPVALUE + 1 + name as c_int)) }
    }

    /// Pushes a value that is on the stack or an upvalue. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// The stack belongs to the function that is running, which has such a value.
    pub unsafe fn push_copy(self, idx: c_int) {
        self.expect(1);
        // SAFETY: there is a slot; the caller vouches for the value.
        unsafe { ffi::lua_pushvalue(self.state, idx) }
    }

    /// Pushes a string.
    ///
    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_bytes(self, bytes: &[u8]) {
        self.expect(1);
        // SAFETY: there is a slot. The pointer and the length are those of a slice, which Lua
        // copies.
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast::<c_char>(), bytes.len()) }
    }

    /// Pushes a number. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_number(self, number: f64) {
        self.expect(1);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushnumber(self.state, number) }
    }

    /// Pushes a boolean. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_boolean(self, yes: bool) {
        self.expect(1);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushboolean(self.state, yes.into()) }
    }

    /// Pushes nil. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// The stack belongs to the function that is running.
    pub unsafe fn push_nil(self) {
        self.expect(1);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushnil(self.state) }
    }

    /// Pushes a pointer. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_pointer<T>(self, pointer: *const T) {
        self.expect(1);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushlightuserdata(self.state, pointer.cast::<c_void>().cast_mut()) }
    }

    /// Pushes an empty table. Lua reserves memory for so many items and fields at once.
    ///
    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_table(self, n_items: usize, n_fields: usize) {
        self.expect(1);
        let size = |n| c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_createtable(self.state, size(n_items), size(n_fields)) }
    }

    /// Pushes so many bytes of memory, which Lua's collector frees. Their content is undefined.
    ///
    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`].
    pub unsafe fn push_memory(self, n_bytes: usize) -> *mut u8 {
        self.expect(1);
        // SAFETY: there is a slot.
        unsafe { ffi::lua_newuserdata(self.state, n_bytes).cast() }
    }

    /// Pushes the metatable of a value, if it has one. Returns whether it has. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`], and there is a value at `idx`.
    pub unsafe fn push_metatable(self, idx: c_int) -> bool {
        self.expect(1);
        // SAFETY: there is a slot; the caller vouches for the value.
        unsafe { ffi::lua_getmetatable(self.state, idx) != 0 }
    }

    /// Pushes an item of a table, and returns its type. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`], and there is a table at `idx`.
    pub unsafe fn push_item(self, idx: c_int, place: c_int) -> c_int {
        self.expect(1);
        // SAFETY: there is a slot; the caller vouches for the table.
        unsafe {
            ffi::lua_rawgeti_(self.state, idx, place);
            ffi::lua_type(self.state, -1)
        }
    }

    /// Pushes a field of the table on top of the stack, and returns its type. Never raises.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`super::running`], and the topmost value is a table.
    pub unsafe fn push_field(self, name: Name) -> c_int {
        // SAFETY: the name takes the slot, and the field replaces it.
        unsafe {
            self.push_name(name);
            ffi::lua_rawget_(self.state, -2);
            ffi::lua_type(self.state, -1)
        }
    }

    /// Replaces the key on top of the stack by the next key and its value in the table below. After
    /// the last key, pops the key and returns `false`. Never raises for nil, or for a key that this
    /// function has pushed.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Stack::push_nil`], and the value below the key is a table.
    pub unsafe fn push_next(self) -> bool {
        self.expect(1);
        // SAFETY: there is a slot; the caller vouches for the table.
        unsafe { ffi::lua_next(self.state, -2) != 0 }
    }

    /// Removes the topmost values. Never raises.
    ///
    /// # Safety
    /// As for [`Stack::push_nil`], and there are so many values.
    pub unsafe fn pop(self, n_values: c_int) {
        // SAFETY: the caller vouches for the values.
        unsafe { ffi::lua_pop(self.state, n_values) }
    }
}

/// Ends the process. A panic would unwind through frames of C, and memory may be overwritten.
#[cold]
extern "C" fn overflow(n_slots: c_int, n_free: c_int) -> ! {
    panic!("a C function needs {n_slots} slots of Lua's stack, and {n_free} are free")
}
