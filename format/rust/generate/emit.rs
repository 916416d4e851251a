// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Writes Rust.

use crate::layout::{Layout, Place};
use crate::parse::Unit;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Headers of what two processes map at the same time: their structs have a view of atomics, too.
const SHARED: [&str; 1] = ["rem_plugin_ctl.h"];

type Layouts = BTreeMap<String, Layout>;

fn line(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// `type` is a word of Rust.
fn rust_name(field: &str) -> &str {
    if field == "type" { "kind" } else { field }
}

/// The type of one element.
fn element(kind: &str, atomic: bool) -> String {
    match (kind.strip_prefix("rem_u"), atomic) {
        (Some(bits), true) => format!("AtomicU{bits}"),
        (Some(bits), false) => format!("u{bits}"),
        (None, _) => camel(kind.trim_start_matches("struct ")),
    }
}

fn rust_type(place: &Place, atomic: bool) -> String {
    let element = element(&place.field.kind, atomic);
    match place.field.count {
        Some(count) => format!("[{element}; {count}]"),
        None => element,
    }
}

/// Constants and structs.
pub fn view(units: &[Unit], layouts: &Layouts) -> String {
    let mut out = String::new();
    for unit in units {
        let header = &unit.header;
        for (name, value) in &unit.defines {
            line(&mut out, &format!("/// `{name}` of `format/{header}`."));
            line(&mut out, &format!("pub const {name}: u64 = {value:#x};"));
        }
        for (name, value) in &unit.constants {
            line(&mut out, &format!("/// `{name}` of `format/{header}`."));
            line(&mut out, &format!("pub const {name}: u32 = {value};"));
        }
        for it in &unit.structs {
            plain(&mut out, header, &it.name, &layouts[&it.name]);
        }
    }
    line(
        &mut out,
        "/// Views of what two processes map at the same time.",
    );
    line(&mut out, "pub mod atomic {");
    line(&mut out, "use std::sync::atomic::{AtomicU32, AtomicU64};");
    for unit in units
        .iter()
        .filter(|unit| SHARED.contains(&unit.header.as_str()))
    {
        for it in &unit.structs {
            fields(&mut out, &unit.header, &it.name, &layouts[&it.name], true);
        }
    }
    line(&mut out, "}");
    out
}

fn fields(out: &mut String, header: &str, name: &str, layout: &Layout, atomic: bool) {
    line(out, &format!("/// `struct {name}` of `format/{header}`."));
    line(out, "#[repr(C)]");
    let derived = if atomic {
        "Debug"
    } else {
        "Debug, Clone, Copy, PartialEq, Eq"
    };
    line(out, &format!("#[derive({derived})]"));
    line(out, &format!("pub struct {} {{", camel(name)));
    for place in &layout.places {
        let field = &place.field.name;
        line(out, &format!("/// `{field}`, at byte {}.", place.offset));
        line(
            out,
            &format!("pub {}: {},", rust_name(field), rust_type(place, atomic)),
        );
    }
    line(out, "}");
    let camel = camel(name);
    line(out, "const _: () = {");
    line(
        out,
        &format!("assert!(size_of::<{camel}>() == {});", layout.bytes),
    );
    for place in &layout.places {
        let field = rust_name(&place.field.name);
        line(
            out,
            &format!(
                "assert!(std::mem::offset_of!({camel}, {field}) == {});",
                place.offset
            ),
        );
    }
    line(out, "};");
}

/// A struct with its bytes.
fn plain(out: &mut String, header: &str, name: &str, layout: &Layout) {
    fields(out, header, name, layout, false);
    let camel = camel(name);
    line(out, &format!("impl {camel} {{"));
    line(out, "/// Size of the struct.");
    line(out, &format!("pub const BYTES: usize = {};", layout.bytes));
    line(out, "/// The struct that these bytes are.");
    line(out, "#[must_use]");
    line(
        out,
        "pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {",
    );
    line(out, "Self {");
    for place in &layout.places {
        line(
            out,
            &format!("{}: {},", rust_name(&place.field.name), read(place)),
        );
    }
    line(out, "}");
    line(out, "}");
    line(out, "/// The struct as it stands in memory or in a file.");
    line(out, "#[must_use]");
    line(out, "pub fn to_bytes(&self) -> [u8; Self::BYTES] {");
    line(out, "let mut bytes = [0; Self::BYTES];");
    for place in &layout.places {
        line(out, &written(place));
    }
    line(out, "bytes");
    line(out, "}");
    line(out, "}");
    line(out, &format!("impl Default for {camel} {{"));
    line(out, "fn default() -> Self {");
    line(out, "Self::from_bytes(&[0; Self::BYTES])");
    line(out, "}");
    line(out, "}");
}

fn read(place: &Place) -> String {
    let element = element(&place.field.kind, false);
    let number = place.field.kind.starts_with("rem_u");
    let one = |at: String, bytes: usize| {
        if number {
            format!("{element}::from_le_bytes(part::<{bytes}>(bytes, {at}))")
        } else {
            format!("{element}::from_bytes(&part(bytes, {at}))")
        }
    };
    match place.field.count {
        None => one(place.offset.to_string(), place.bytes),
        Some(count) if place.field.kind == "rem_u8" => {
            format!("part::<{count}>(bytes, {})", place.offset)
        }
        Some(count) => {
            let bytes = place.bytes / count;
            let at = format!("{} + n * {bytes}", place.offset);
            format!("std::array::from_fn(|n| {})", one(at, bytes))
        }
    }
}

fn written(place: &Place) -> String {
    let field = rust_name(&place.field.name);
    let to_bytes = if place.field.kind.starts_with("rem_u") {
        "to_le_bytes"
    } else {
        "to_bytes"
    };
    let at = place.offset;
    match place.field.count {
        None => format!("put(&mut bytes, {at}, &self.{field}.{to_bytes}());"),
        Some(_) if place.field.kind == "rem_u8" => {
            format!("put(&mut bytes, {at}, &self.{field});")
        }
        Some(count) => format!(
            "for (n, one) in self.{field}.iter().enumerate() {{ \
             put(&mut bytes, {at} + n * {}, &one.{to_bytes}()); }}",
            place.bytes / count
        ),
    }
}

/// For the test that asks the C compiler.
pub fn tables(units: &[Unit], layouts: &Layouts) -> String {
    let mut out = String::new();
    line(&mut out, "const HEADERS: &[&str] = &[");
    for unit in units {
        line(&mut out, &format!("{:?},", unit.header));
    }
    line(&mut out, "];");
    line(&mut out, "const CONSTANTS: &[(&str, u64)] = &[");
    for unit in units {
        for (name, _) in &unit.defines {
            line(&mut out, &format!("({name:?}, remanence_format::{name}),"));
        }
        for (name, _) in &unit.constants {
            line(
                &mut out,
                &format!("({name:?}, remanence_format::{name} as u64),"),
            );
        }
    }
    line(&mut out, "];");
    line(&mut out, "const FIELDS: &[(&str, &str, usize, usize)] = &[");
    for (name, layout) in layouts {
        line(&mut out, &format!("({name:?}, \"\", 0, {}),", layout.bytes));
        for place in &layout.places {
            let field = &place.field.name;
            line(
                &mut out,
                &format!("({name:?}, {field:?}, {}, {}),", place.offset, place.bytes),
            );
        }
    }
    line(&mut out, "];");
    out
}
