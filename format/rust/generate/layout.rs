// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Where each field lies, by C's rules on x86-64. A struct with padding is an error: the formats
//! have none.

use crate::parse::{Field, Struct, Unit};
use std::collections::BTreeMap;

/// Offset and size of a field.
#[derive(Debug, Clone)]
pub struct Place {
    pub field: Field,
    pub offset: usize,
    pub bytes: usize,
}

/// A struct with its fields in order.
#[derive(Debug, Clone)]
pub struct Layout {
    pub bytes: usize,
    pub align: usize,
    pub places: Vec<Place>,
}

/// The layout of every struct, by name.
pub fn of(units: &[Unit]) -> Result<BTreeMap<String, Layout>, String> {
    let mut known = BTreeMap::new();
    let mut left: Vec<&Struct> = units.iter().flat_map(|unit| &unit.structs).collect();
    while !left.is_empty() {
        let before = left.len();
        let mut later = Vec::new();
        for it in left {
            match layout(it, &known)? {
                Some(layout) => drop(known.insert(it.name.clone(), layout)),
                None => later.push(it),
            }
        }
        if later.len() == before {
            return Err(format!(
                "struct {} has a field of an unknown type",
                later[0].name
            ));
        }
        left = later;
    }
    Ok(known)
}

/// `None` where a struct inside it is not known yet.
fn layout(it: &Struct, known: &BTreeMap<String, Layout>) -> Result<Option<Layout>, String> {
    let mut layout = Layout {
        bytes: 0,
        align: 1,
        places: Vec::new(),
    };
    for field in &it.fields {
        let (bytes, align) = match (field.kind.as_str(), field.kind.strip_prefix("struct ")) {
            ("rem_u8", _) => (1, 1),
            ("rem_u16", _) => (2, 2),
            ("rem_u32", _) => (4, 4),
            ("rem_u64", _) => (8, 8),
            (_, Some(name)) => match known.get(name) {
                Some(inner) => (inner.bytes, inner.align),
                None => return Ok(None),
            },
            (other, None) => return Err(format!("{}.{}: type {other}", it.name, field.name)),
        };
        if layout.bytes % align != 0 {
            return Err(format!("padding before {}.{}", it.name, field.name));
        }
        let bytes = bytes * field.count.unwrap_or(1);
        layout.places.push(Place {
            field: field.clone(),
            offset: layout.bytes,
            bytes,
        });
        layout.bytes += bytes;
        layout.align = layout.align.max(align);
    }
    if layout.bytes % layout.align != 0 {
        return Err(format!("padding at the end of {}", it.name));
    }
    Ok(Some(layout))
}
