//! Scripts whose results are nested as deep as a reply can be, and deeper.

pub const NESTED: &[&str] = &[
    "local t = {} t[1] = t return t",
    "local t = {set = {}} t.set[t] = true return t",
    "local t = {map = {}} t.map[t] = 1 return t",
    "local t = {map = {}} t.map[1] = t return t",
    "local s, m = {set = {}}, {map = {}} s.set[m] = true m.map[s] = 1 return s",
    "local t = {} for i = 1, 190 do t = {set = {[t] = true}} end return t",
    "local t = {} for i = 1, 190 do t = {map = {[t] = 1}} end return t",
];
