// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts: tables of numbers, each with its source or the word ASSUMED.
//!
//! Invariants: every number is finite and not negative, has a source, and is
//! read by the controller of its kind; a name that none reads is refused.

use crate::error::MediaError;
use crate::units::Ps;
use remanence_parts::MEMORY;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A number and where it is from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// In the unit that the name ends with.
    pub value: f64,
    /// A publication, or a text with the word ASSUMED.
    pub source: String,
}

impl Value {
    /// No publication stands behind it.
    #[must_use]
    pub fn assumed(&self) -> bool {
        self.source.contains("ASSUMED")
    }
}

/// One table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name, from the file.
    #[serde(skip)]
    pub name: String,
    /// Which controller reads it.
    pub kind: String,
    /// The numbers.
    pub values: BTreeMap<String, Value>,
}

/// The names of the built-in parts.
#[must_use]
pub fn names() -> Vec<&'static str> {
    MEMORY.iter().map(|(name, _)| *name).collect()
}

impl Part {
    /// A built-in part.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn built_in(name: &str) -> Result<Self, MediaError> {
        let found = MEMORY.iter().find(|(known, _)| *known == name);
        let Some((_, text)) = found else {
            return Err(MediaError::NoPart {
                name: name.to_owned(),
                known: names().join(", "),
            });
        };
        Self::parse(name, text)
    }

    /// A part from its text.
    ///
    /// # Errors
    /// When it is no part, or a number has no source or is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, MediaError> {
        let form = |cause: String| MediaError::PartForm {
            part: name.to_owned(),
            cause,
        };
        let mut part: Self =
            toml::from_str(text).map_err(|error| form(one_line(&error.to_string())))?;
        name.clone_into(&mut part.name);
        for (key, value) in &part.values {
            if value.source.trim().is_empty() {
                return Err(form(format!(
                    "{key} has no source: name one, or say ASSUMED"
                )));
            }
            if !value.value.is_finite() || value.value < 0.0 || value.value > 1e15 {
                return Err(part.bad(key, "give a number from 0 to 1e15"));
            }
        }
        Ok(part)
    }

    /// The same part with one number changed, for a sweep.
    ///
    /// # Errors
    /// When there is no such number.
    pub fn with(&self, key: &str, value: f64) -> Result<Self, MediaError> {
        let mut part = self.clone();
        let Some(old) = part.values.get_mut(key) else {
            return Err(self.unknown(key, self.values.keys().map(String::as_str)));
        };
        *old = Value {
            value,
            source: "ASSUMED: given with the job".to_owned(),
        };
        if !value.is_finite() || !(0.0..=1e15).contains(&value) {
            return Err(part.bad(key, "give a number from 0 to 1e15"));
        }
        Ok(part)
    }

    fn bad(&self, key: &str, why: &str) -> MediaError {
        MediaError::BadParameter {
            part: self.name.clone(),
            name: key.to_owned(),
            value: self.values[key].value,
            why: why.to_owned(),
        }
    }

    fn unknown<'a>(&self, key: &str, known: impl Iterator<Item = &'a str>) -> MediaError {
        let near = known
            .map(|name| (distance(key, name), name))
            .min()
            .filter(|(far, _)| *far <= 3);
        MediaError::UnknownParameter {
            part: self.name.clone(),
            name: key.to_owned(),
            hint: near.map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)")),
        }
    }

    /// Begin to read the part as one of `kind`.
    ///
    /// # Errors
    /// When it is another kind.
    pub fn reader(&self, kind: &str) -> Result<Reader<'_>, MediaError> {
        if self.kind != kind {
            return Err(MediaError::PartForm {
                part: self.name.clone(),
                cause: format!("is a part of kind {}, not {kind}", self.kind),
            });
        }
        Ok(Reader {
            part: self,
            read: Vec::new(),
        })
    }
}

/// Takes numbers out of a part and knows which were taken.
#[derive(Debug)]
pub struct Reader<'a> {
    part: &'a Part,
    read: Vec<&'static str>,
}

impl Reader<'_> {
    /// A number.
    ///
    /// # Errors
    /// When it is not there.
    pub fn number(&mut self, key: &'static str) -> Result<f64, MediaError> {
        self.read.push(key);
        let found = self.part.values.get(key);
        found.map(|value| value.value).ok_or_else(|| {
            let wrong = self
                .part
                .values
                .keys()
                .find(|name| distance(name, key) <= 2);
            match wrong {
                Some(name) => self.part.unknown(name, std::iter::once(key)),
                None => MediaError::MissingParameter {
                    part: self.part.name.clone(),
                    name: key.to_owned(),
                },
            }
        })
    }

    /// A time.
    ///
    /// # Errors
    /// When it is not there.
    pub fn ns(&mut self, key: &'static str) -> Result<Ps, MediaError> {
        Ok(Ps::from_ns(self.number(key)?))
    }

    /// A whole number that is not zero.
    ///
    /// # Errors
    /// When it is not there or is none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and positive; parse() bounds it by 1e15"
    )]
    pub fn count(&mut self, key: &'static str) -> Result<u64, MediaError> {
        let value = self.number(key)?;
        if value < 1.0 || value.fract() != 0.0 {
            return Err(self.part.bad(key, "give a whole number from 1"));
        }
        Ok(value as u64)
    }

    /// A whole number that is a power of two.
    ///
    /// # Errors
    /// When it is not there or is none.
    pub fn power_of_two(&mut self, key: &'static str) -> Result<u64, MediaError> {
        let value = self.count(key)?;
        if !value.is_power_of_two() {
            return Err(self.part.bad(key, "give a power of two"));
        }
        Ok(value)
    }

    /// All is read: what was not is unknown.
    ///
    /// # Errors
    /// When a number is there that nobody has read.
    pub fn finish(self) -> Result<(), MediaError> {
        let mut names = self.part.values.keys();
        match names.find(|name| !self.read.contains(&name.as_str())) {
            Some(name) => Err(self.part.unknown(name, self.read.iter().copied())),
            None => Ok(()),
        }
    }
}

/// How many letters differ (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A message of several lines as one.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split('\n')
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of every part names a source.
    #[test]
    fn every_built_in_part_is_well_formed() {
        for name in names() {
            assert!(!Part::built_in(name).unwrap().values.is_empty());
        }
    }

    /// The prose of the tables is true: Table I is 1.1x and 4.1x of the DRAM, Figure 2 1.011x.
    #[test]
    fn pram_stands_to_dram_as_the_paper_says() {
        let number = |part: &str, key: &str| Part::built_in(part).unwrap().values[key].value;
        let dram = |key| number("ddr4", key);
        let read = dram("controller_ns")
            + dram("trp_ns")
            + dram("trcd_ns")
            + dram("tcl_ns")
            + dram("tburst_ns");
        let write = dram("controller_ns")
            + dram("trp_ns")
            + dram("trcd_ns")
            + dram("tcwl_ns")
            + dram("tburst_ns")
            + dram("twr_ns");
        for (part, ratio) in [("lpc-table1", 1.1), ("lpc-fig2", 1.011)] {
            let ours =
                number(part, "read_ns") + number(part, "controller_ns") + number(part, "tburst_ns");
            assert!((ours / read - ratio).abs() < 1e-6, "{part}: {ours}");
            let ours = number(part, "program_ns")
                + number(part, "cooling_ns")
                + number(part, "controller_ns")
                + number(part, "tburst_ns");
            assert!((ours / write - 4.1).abs() < 1e-6, "{part}: {ours}");
        }
    }

    #[test]
    fn number_without_a_source_is_refused() {
        let text = "kind = \"dram\"\n[values]\nbanks = { value = 1, source = \" \" }";
        let error = Part::parse("mine", text).unwrap_err().to_string();
        assert!(error.contains("banks has no source"), "{error}");
    }

    #[test]
    fn misspelt_name_is_refused_with_the_right_one() {
        let text = "kind = \"x\"\n[values]\nread_nss = { value = 1, source = \"s\" }";
        let part = Part::parse("mine", text).unwrap();
        let error = part.reader("x").unwrap().ns("read_ns").unwrap_err();
        assert!(
            error.to_string().contains("did you mean read_ns?"),
            "{error}"
        );
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for value in ["-1", "inf", "nan", "1e99"] {
            let text = format!("kind = \"x\"\n[values]\na = {{ value = {value}, source = \"s\" }}");
            assert!(Part::parse("mine", &text).is_err(), "{value}");
        }
    }
}
