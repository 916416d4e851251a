// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order of a save and of an entry, for a guest under QEMU and for the model that tests it.
//!
//! Invariant: a commit word is written last, when all that it stands for is durable; the consumed
//! word is durable before anything of an image is used.

use std::io;

use remanence_format::RemVmBody;

use crate::record::{Media, Record};

/// What an image is made of.
pub trait Source {
    /// What can fail.
    type Error: From<io::Error>;

    /// Writes device state into the file of this sequence's slot; durable when it returns.
    ///
    /// # Errors
    /// Its own.
    fn write_state(&mut self, sequence: u32) -> Result<(), Self::Error>;

    /// Makes the guest's memory durable.
    ///
    /// # Errors
    /// Its own.
    fn flush_memory(&mut self) -> Result<(), Self::Error>;

    /// The body that describes what was written.
    ///
    /// # Errors
    /// Its own.
    fn body(&mut self, sequence: u32) -> Result<RemVmBody, Self::Error>;
}

/// Saves a guest that is stopped.
///
/// # Errors
/// Those of the source and of the record; then nothing is committed.
pub fn save<M: Media, S: Source>(
    record: &Record<M>,
    source: &mut S,
    sequence: u32,
) -> Result<(), S::Error> {
    record.open_slot(sequence)?;
    source.write_state(sequence)?;
    source.flush_memory()?;
    let body = source.body(sequence)?;
    record.commit(&body)?;
    Ok(())
}

/// Before a guest's CPUs go on after a save, because the power came back: what that save has
/// committed is not entered, also where it reported an error and nobody knows what is on media.
///
/// # Errors
/// Those of the record; then they may not go on.
pub fn give_up<M: Media>(record: &Record<M>, sequence: u32) -> io::Result<()> {
    record.consume(sequence)
}

/// Before an image's guest runs: it is not entered again, whatever happens next.
///
/// # Errors
/// Those of the record.
pub fn enter<M: Media>(record: &Record<M>, sequence: u32) -> io::Result<()> {
    record.consume(sequence)
}
