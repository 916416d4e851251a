// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of a guest (`format/rem_vm.h`): which image may be entered, and once.
//!
//! Invariant: what a crash leaves between any two writes here is either the old decision or the
//! new one. Each write is durable before the next begins.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use remanence_format::{
    REM_VM_BODY_OFFSET, REM_VM_BYTES, REM_VM_COMMIT_OFFSET, REM_VM_CONSUMED_OFFSET, REM_VM_MAGIC,
    REM_VM_SLOT_BYTES, REM_VM_VERSION, REM_WORD_COMMIT, REM_WORD_CONSUMED, RemVmBody, RemVmHeader,
    RemWord, u32_of, usize_of,
};

/// Why an image is not entered, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This slot's image is complete and was never entered.
    Enter(u32),
    /// Nothing was ever saved.
    Empty,
    /// No header, or of another version.
    NoRecord,
    /// The newest committed image was entered before.
    Consumed,
    /// The consumed word has a wrong check.
    ConsumedDamaged,
    /// A commit word, or the body that it covers, has a wrong check.
    CommitDamaged,
}

impl Verdict {
    /// The field's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Enter(_) => "resume",
            Self::Empty => "not-committed",
            Self::NoRecord => "no-record",
            Self::Consumed => "already-consumed",
            Self::ConsumedDamaged => "consumed-damaged",
            Self::CommitDamaged => "commit-damaged",
        }
    }
}

/// The bytes of a record, as they are on media.
pub type Bytes = [u8; usize_of(REM_VM_BYTES)];

fn crc_of(words: &[u32]) -> u32 {
    words.iter().fold(0, |crc, word| {
        crc32c::crc32c_append(crc, &word.to_le_bytes())
    })
}

fn consumed_word(sequence: u32) -> RemWord {
    let check = crc_of(&[u32_of(REM_WORD_CONSUMED), sequence]);
    RemWord { sequence, check }
}

fn commit_word(sequence: u32, body: &[u8]) -> RemWord {
    let check = crc_of(&[u32_of(REM_WORD_COMMIT), sequence, crc32c::crc32c(body)]);
    RemWord { sequence, check }
}

fn at<const N: usize>(bytes: &Bytes, offset: usize) -> &[u8; N] {
    let mut parts = bytes[offset..].chunks_exact(N);
    let part = parts.next().and_then(|part| part.try_into().ok());
    part.unwrap_or_else(|| unreachable!("every part of a record lies inside it"))
}

const fn slot_offset(base: u64, sequence: u32) -> u64 {
    base + (sequence % 2) as u64 * REM_VM_SLOT_BYTES
}

fn header() -> RemVmHeader {
    let mut header = RemVmHeader {
        magic: REM_VM_MAGIC,
        version: u32_of(REM_VM_VERSION),
        bytes: u32_of(REM_VM_BYTES),
        ..RemVmHeader::default()
    };
    let bytes = header.to_bytes();
    header.crc = crc32c::crc32c(&bytes[..RemVmHeader::BYTES - 4]);
    header
}

/// The body that a committed sequence has.
#[must_use]
pub fn body(bytes: &Bytes, sequence: u32) -> RemVmBody {
    let offset = usize_of(slot_offset(REM_VM_BODY_OFFSET, sequence));
    RemVmBody::from_bytes(at(bytes, offset))
}

/// The sequence of a slot's commit: None if there is no image, an error if it is damaged.
fn committed(bytes: &Bytes, slot: u32) -> Result<Option<u32>, ()> {
    let offset = usize_of(slot_offset(REM_VM_COMMIT_OFFSET, slot));
    let word = RemWord::from_bytes(at(bytes, offset));
    if word == RemWord::default() {
        return Ok(None);
    }
    let body_offset = usize_of(slot_offset(REM_VM_BODY_OFFSET, slot));
    let raw: &[u8; RemVmBody::BYTES] = at(bytes, body_offset);
    let right = word == commit_word(word.sequence, raw)
        && word.sequence != 0
        && word.sequence % 2 == slot
        && RemVmBody::from_bytes(raw).sequence == word.sequence;
    if right {
        Ok(Some(word.sequence))
    } else {
        Err(())
    }
}

/// What may be done with a record: a function of its bytes alone.
#[must_use]
pub fn judge(bytes: &Bytes) -> Verdict {
    if at::<{ RemVmHeader::BYTES }>(bytes, 0) != &header().to_bytes() {
        return Verdict::NoRecord;
    }
    let consumed = RemWord::from_bytes(at(bytes, usize_of(REM_VM_CONSUMED_OFFSET)));
    if consumed != consumed_word(consumed.sequence) {
        return Verdict::ConsumedDamaged;
    }
    let (Ok(even), Ok(odd)) = (committed(bytes, 0), committed(bytes, 1)) else {
        return Verdict::CommitDamaged;
    };
    match even.max(odd) {
        None => Verdict::Empty,
        Some(newest) if newest > consumed.sequence => Verdict::Enter(newest),
        Some(_) => Verdict::Consumed,
    }
}

/// Where a record is kept.
pub trait Media {
    /// All bytes of the record.
    ///
    /// # Errors
    /// Those of the file system.
    fn read(&self) -> io::Result<Box<Bytes>>;

    /// Writes some of them; they are durable when this returns.
    ///
    /// # Errors
    /// Those of the file system.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

impl Media for File {
    fn read(&self) -> io::Result<Box<Bytes>> {
        let mut bytes = Box::new([0; usize_of(REM_VM_BYTES)]);
        self.read_exact_at(bytes.as_mut_slice(), 0)?;
        Ok(bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)?;
        self.sync_data()
    }
}

/// An open record. Only one process may have it.
#[derive(Debug)]
pub struct Record<M = File> {
    media: M,
}

impl Record<File> {
    /// Opens a record, or makes an empty file of its size. Its guest's lock keeps others from it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        if file.metadata()?.len() < REM_VM_BYTES {
            file.set_len(REM_VM_BYTES)?;
            file.sync_all()?;
        }
        Ok(Self { media: file })
    }
}

impl<M: Media> Record<M> {
    /// On media of any kind.
    pub fn on(media: M) -> Self {
        Self { media }
    }

    /// All of it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn read(&self) -> io::Result<Box<Bytes>> {
        self.media.read()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.media.write(offset, bytes)
    }

    /// No later power-on enters the image of this sequence, or an older one.
    ///
    /// # Errors
    /// Those of the file system, and `InvalidData` if the word does not read back.
    pub fn consume(&self, sequence: u32) -> io::Result<()> {
        let word = consumed_word(sequence).to_bytes();
        self.write(REM_VM_CONSUMED_OFFSET, &word)?;
        let bytes = self.read()?;
        if at::<8>(&bytes, usize_of(REM_VM_CONSUMED_OFFSET)) != &word {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the consumed word does not read back",
            ));
        }
        Ok(())
    }

    /// Before a cold boot: nothing that is there can be entered any more. Returns the sequence
    /// that the next image gets.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn close_all(&self) -> io::Result<u32> {
        let bytes = self.read()?;
        let newest = [0, 1].map(|slot| committed(&bytes, slot));
        let consumed = RemWord::from_bytes(at(&bytes, usize_of(REM_VM_CONSUMED_OFFSET)));
        let is_whole = at::<{ RemVmHeader::BYTES }>(&bytes, 0) == &header().to_bytes()
            && consumed == consumed_word(consumed.sequence);
        let known = newest.iter().filter_map(|slot| slot.ok().flatten());
        let highest = known.fold(if is_whole { consumed.sequence } else { 0 }, u32::max);
        if is_whole && newest.iter().all(Result::is_ok) {
            self.consume(highest)?;
            return Ok(highest.saturating_add(1));
        }
        // Damaged words first: while one is there, nothing is entered.
        for slot in 0..2 {
            self.write(slot_offset(REM_VM_COMMIT_OFFSET, slot), &[0; 8])?;
        }
        self.consume(highest)?;
        self.write(0, &header().to_bytes())?;
        Ok(highest.saturating_add(1))
    }

    /// Before an image is written: its slot has none.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open_slot(&self, sequence: u32) -> io::Result<()> {
        self.write(slot_offset(REM_VM_COMMIT_OFFSET, sequence), &[0; 8])
    }

    /// The image is complete: from here on the next power-on enters it.
    ///
    /// # Errors
    /// Those of the file system; then nothing is committed.
    pub fn commit(&self, body: &RemVmBody) -> io::Result<()> {
        let raw = body.to_bytes();
        self.write(slot_offset(REM_VM_BODY_OFFSET, body.sequence), &raw)?;
        let word = commit_word(body.sequence, &raw).to_bytes();
        self.write(slot_offset(REM_VM_COMMIT_OFFSET, body.sequence), &word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> (tempfile::TempDir, Record) {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::open(&folder.path().join("record")).unwrap();
        (folder, record)
    }

    fn image(sequence: u32) -> RemVmBody {
        RemVmBody {
            sequence,
            state_bytes: 7,
            ..RemVmBody::default()
        }
    }

    /// Goal: an image is entered once. Method: the whole life of a record.
    #[test]
    fn an_image_is_entered_once() {
        let (_folder, record) = record();
        assert_eq!(judge(&record.read().unwrap()), Verdict::NoRecord);
        let next = record.close_all().unwrap();
        assert_eq!(judge(&record.read().unwrap()), Verdict::Empty);
        for sequence in next..next + 5 {
            record.open_slot(sequence).unwrap();
            record.commit(&image(sequence)).unwrap();
            let bytes = record.read().unwrap();
            assert_eq!(judge(&bytes), Verdict::Enter(sequence));
            assert_eq!(body(&bytes, sequence), image(sequence));
            record.consume(sequence).unwrap();
            assert_eq!(judge(&record.read().unwrap()), Verdict::Consumed);
        }
        assert_eq!(record.close_all().unwrap(), next + 5);
    }

    /// Goal: a cold boot closes what could be entered. Negative proof: without it, it is entered.
    #[test]
    fn a_cold_boot_closes_every_image() {
        let (_folder, record) = record();
        let next = record.close_all().unwrap();
        record.commit(&image(next)).unwrap();
        assert_eq!(judge(&record.read().unwrap()), Verdict::Enter(next));
        assert_eq!(record.close_all().unwrap(), next + 1);
        assert_eq!(judge(&record.read().unwrap()), Verdict::Consumed);
    }

    proptest! {
        /// Goal: no damage makes an image enterable that was not. Method: a bit of a record whose
        /// image was consumed is flipped.
        #[test]
        fn a_flipped_bit_never_opens_a_consumed_image(bit in 0..usize_of(REM_VM_BYTES) * 8) {
            let (_folder, record) = record();
            let next = record.close_all().unwrap();
            record.commit(&image(next)).unwrap();
            record.consume(next).unwrap();
            record.commit(&image(next + 1)).unwrap();
            record.consume(next + 1).unwrap();
            let mut bytes = record.read().unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(judge(&bytes), Verdict::Enter(_)));
        }

        /// Goal: an image whose bytes changed is not entered. Method: a bit of body or words.
        #[test]
        fn a_flipped_bit_never_leaves_a_changed_image(bit in 0..usize_of(REM_VM_BYTES) * 8) {
            let (_folder, record) = record();
            let next = record.close_all().unwrap();
            record.commit(&image(next)).unwrap();
            let before = record.read().unwrap();
            let mut bytes = before.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Verdict::Enter(sequence) = judge(&bytes) {
                prop_assert_eq!(sequence, next);
                prop_assert_eq!(body(&bytes, sequence), body(&before, sequence));
            }
        }

        /// Goal: whatever the bytes are, judging them ends, and a cold boot makes a whole record.
        #[test]
        fn any_bytes_are_judged_and_closed(words in prop::collection::vec((0..usize_of(REM_VM_BYTES), any::<u8>()), 0..64)) {
            let (_folder, record) = record();
            let mut bytes = record.read().unwrap();
            for (place, byte) in words {
                bytes[place] = byte;
            }
            record.write(0, bytes.as_slice()).unwrap();
            let _ = judge(&bytes);
            let next = record.close_all().unwrap();
            prop_assert!(matches!(judge(&record.read().unwrap()), Verdict::Empty | Verdict::Consumed));
            record.commit(&image(next)).unwrap();
            prop_assert_eq!(judge(&record.read().unwrap()), Verdict::Enter(next));
        }
    }
}
