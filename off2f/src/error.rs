// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong.

use std::path::PathBuf;

/// Why a file stays as it is: it is no ELF that the kernel maps, or nothing would be right with its
/// text elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Scripts and all else.
    #[error("no ELF file")]
    NoElf,
    /// Object files, core dumps.
    #[error("an ELF file of type {0}, not a program")]
    Type(u16),
    /// Of another machine, or of 32 bits.
    #[error("not for x86-64 (machine {machine}, {bits} bits)")]
    Machine {
        /// `e_machine`.
        machine: u16,
        /// 32 or 64.
        bits: u8,
    },
    /// What ld.so maps the kernel never sees.
    #[error("a shared library: ld.so maps it, not the kernel")]
    Library,
    /// Structures that contradict each other or the file's size.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// A limit of the format.
    #[error("{0}: more than the format has room for")]
    TooMuch(&'static str),
    /// Nothing to put into NVRAM.
    #[error("no executable segment")]
    NoText,
    /// It could not be shared, nor stay as it is.
    #[error("its text is writable")]
    WritableText,
    /// Zeros behind the text would be written into its last page.
    #[error("its text has a part without bytes in the file")]
    TextWithBss,
    /// A page can be mapped from one file only.
    #[error("a page of memory holds text and another segment")]
    SharedPage,
}

/// What an operation ends with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The ELF is not converted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Not an ABC or XYZ that could be used.
    #[error("{what}: {why}")]
    Bad {
        /// ABC or XYZ.
        what: &'static str,
        /// Which check failed.
        why: String,
    },
    /// Content that is not what it was when it was converted.
    #[error("{what}: the digest of its {part} is another one: damaged, or not of this program")]
    Digest {
        /// ABC or XYZ.
        what: &'static str,
        /// Text, data.
        part: &'static str,
    },
    /// The operating system says no.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// What takes a program's place would be without one of its extended attributes.
    #[error("{path}: it cannot have the program's attribute {name} there: {source}")]
    Attribute {
        /// Of the attribute.
        name: String,
        /// Of the new file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// An order that cannot be carried out.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    pub(crate) fn bad(what: &'static str, why: impl Into<String>) -> Self {
        Self::Bad {
            what,
            why: why.into(),
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
