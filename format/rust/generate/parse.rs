// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Reads one header. The headers keep to plain `#define`, `enum` and `struct`; anything else is
//! an error, so nothing of a header can be missed silently.

/// A field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: String,
    /// `rem_u8` to `rem_u64`, or `struct NAME`.
    pub kind: String,
    /// How many, for an array.
    pub count: Option<usize>,
}

/// `struct NAME { ... };`
#[derive(Debug, Clone)]
pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
}

/// What one header defines.
#[derive(Debug, Clone, Default)]
pub struct Unit {
    pub header: String,
    /// Names and values of `#define NAME NUMBER`.
    pub defines: Vec<(String, u64)>,
    /// Names and values of enum constants.
    pub constants: Vec<(String, u32)>,
    pub structs: Vec<Struct>,
}

/// Parses the text of a header.
pub fn parse(header: &str, text: &str) -> Result<Unit, String> {
    let mut unit = Unit {
        header: header.to_owned(),
        ..Unit::default()
    };
    let code = code_of(&without_comments(text)?, &mut unit)?;
    let mut rest = code.trim_start();
    while !rest.is_empty() {
        let end = statement_end(rest)?;
        statement(&rest[..end], &mut unit)?;
        rest = rest[end + 1..].trim_start();
    }
    Ok(unit)
}

fn without_comments(text: &str) -> Result<String, String> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        let end = rest[start..].find("*/").ok_or("a comment has no end")?;
        rest = &rest[start + end + 2..];
    }
    kept.push_str(rest);
    Ok(kept)
}

/// What is left behind the preprocessor on a host: `__KERNEL__` is not defined.
fn code_of(text: &str, unit: &mut Unit) -> Result<String, String> {
    let mut code = String::new();
    let mut keep = vec![true];
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kept = keep.iter().all(|it| *it);
        match words[..] {
            ["#ifdef", name] => keep.push(name != "__KERNEL__"),
            ["#ifndef", _] => keep.push(true),
            ["#else"] => match keep.last_mut() {
                Some(last) => *last = !*last,
                None => return Err("#else without #if".into()),
            },
            ["#endif"] => drop(keep.pop()),
            _ if !kept => {}
            ["#include", _] | ["#define", _] => {}
            ["#define", name, value] => unit.defines.push((name.into(), number(value)?)),
            [first, ..] if first.starts_with('#') => return Err(format!("cannot parse: {line}")),
            _ => {
                code.push_str(line);
                code.push('\n');
            }
        }
    }
    match keep[..] {
        [true] => Ok(code),
        _ => Err("#if without #endif".into()),
    }
}

/// Index of the semicolon that ends the first statement.
fn statement_end(text: &str) -> Result<usize, String> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return Ok(at),
            _ => {}
        }
    }
    Err(format!(
        "no end: {}",
        text.lines().next().unwrap_or_default()
    ))
}

fn statement(text: &str, unit: &mut Unit) -> Result<(), String> {
    let head: Vec<&str> = text.split_whitespace().take(2).collect();
    match head[..] {
        // The C compiler checks them where the header is included; tests/compiler.rs checks more.
        [first, ..] if first.starts_with("static_assert") => Ok(()),
        ["typedef", _] => Ok(()),
        ["enum", _] => constants(body_of(text)?, unit),
        ["struct", name] => {
            let fields = body_of(text)?
                .split(';')
                .map(str::trim)
                .filter(|field| !field.is_empty());
            unit.structs.push(Struct {
                name: name.into(),
                fields: fields.map(field).collect::<Result<_, _>>()?,
            });
            Ok(())
        }
        _ => Err(format!("cannot parse: {text}")),
    }
}

fn body_of(text: &str) -> Result<&str, String> {
    let inside = text
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    inside
        .map(|(body, _)| body)
        .ok_or_else(|| format!("no body: {text}"))
}

fn constants(body: &str, unit: &mut Unit) -> Result<(), String> {
    for constant in body.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (name, value) = constant
            .split_once('=')
            .ok_or_else(|| format!("{constant} has no number of its own"))?;
        let value = u32::try_from(number(value.trim())?).map_err(|err| format!("{name}: {err}"))?;
        unit.constants.push((name.trim().into(), value));
    }
    Ok(())
}

fn field(text: &str) -> Result<Field, String> {
    let (kind, name) = text
        .rsplit_once(char::is_whitespace)
        .ok_or_else(|| format!("cannot parse the field {text}"))?;
    let (name, count) = match name.split_once('[') {
        None => (name, None),
        Some((name, count)) => {
            let count = number(count.trim_end_matches(']'))?;
            let count = usize::try_from(count).map_err(|err| format!("{name}: {err}"))?;
            (name, Some(count))
        }
    };
    let words: Vec<&str> = kind.split_whitespace().collect();
    Ok(Field {
        name: name.into(),
        kind: words.join(" "),
        count,
    })
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|err| format!("{text}: {err}"))
}
