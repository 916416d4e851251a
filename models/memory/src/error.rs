// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with what one is given. The message is for people: what,
//! where, what to do.

/// One error for the crate; each is one line.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// A part's table is no TOML, or not of the form of parts.
    #[error("part {part}: {cause}")]
    PartForm {
        /// Name or file.
        part: String,
        /// The parser's message, in one line.
        cause: String,
    },
    /// A part that does not exist.
    #[error("no part named {name}: give one of {known}")]
    NoPart {
        /// The requested name.
        name: String,
        /// The built-in ones.
        known: String,
    },
    /// A value that no controller of this kind reads.
    #[error("part {part}: unknown parameter {name}{hint}")]
    UnknownParameter {
        /// Name or file.
        part: String,
        /// As it was written.
        name: String,
        /// ` (did you mean ...?)`, or nothing.
        hint: String,
    },
    /// A value that is needed and not there.
    #[error("part {part}: parameter {name} is missing")]
    MissingParameter {
        /// Name or file.
        part: String,
        /// What is missing.
        name: String,
    },
    /// A value outside of what can be.
    #[error("part {part}: {name} = {value}: {why}")]
    BadParameter {
        /// Name or file.
        part: String,
        /// Which.
        name: String,
        /// What it is.
        value: f64,
        /// What it must be.
        why: String,
    },
    /// A combination of sizes that no memory can have.
    #[error("impossible geometry: {0}")]
    Geometry(String),
    /// A job that cannot be meant.
    #[error("job: {0}")]
    Job(String),
    /// Bytes that are no trace.
    #[error("trace {name}: {why}")]
    Trace {
        /// The file.
        name: String,
        /// Which check failed, and where.
        why: String,
    },
    /// Bytes that are no checkpoint of this version.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// The surroundings.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// Why it could not be read or written.
        cause: std::io::Error,
    },
}
