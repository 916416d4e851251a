// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether two files are what they claim to be.

use sha2::{Digest, Sha256};

use crate::convert::{digest_rest, digest_texts, usize_of};
use crate::error::Failure;
use crate::format::{FILE_MAX, Header, MAGIC, PAGE_BYTES, Text, XYZ_BYTES, XyzEnd};

/// Whether a file begins as an ABC does.
#[must_use]
pub fn is_abc(file: &[u8]) -> bool {
    file.get(..4) == Some(&MAGIC.to_le_bytes())
}

/// Reads and checks a whole ABC.
///
/// # Errors
///
/// [`Failure::Bad`], [`Failure::Digest`].
pub fn check_abc(abc: &[u8]) -> Result<Header, Failure> {
    let header = Header::parse(abc)?;
    let bad = |why: &str| Failure::bad("ABC", why);
    if header.abc_bytes != abc.len() as u64 {
        return Err(bad("its size is not what its header says: cut off?"));
    }
    let page = usize_of(PAGE_BYTES);
    if abc.len() < page {
        return Err(bad("it is shorter than its header page"));
    }
    sensible(&header)?;
    if <[u8; 32]>::from(Sha256::digest(&abc[page..])) != header.rest_sha256 {
        return Err(Failure::Digest {
            what: "ABC",
            part: "data",
        });
    }
    Ok(header)
}

/// Whether the header's numbers fit together.
fn sensible(header: &Header) -> Result<(), Failure> {
    let bad = |why: &str| Err(Failure::bad("ABC", why));
    if header.source_bytes >= FILE_MAX || header.xyz_bytes >= FILE_MAX {
        return bad("a size in its header is impossible");
    }
    let mut cut = 0_u64;
    let mut end = PAGE_BYTES;
    for text in &header.texts {
        if !text_is_sensible(text, header, end) {
            return bad("a text in its header is impossible");
        }
        cut += text.cut_bytes;
        end = text.xyz_offset + text.bytes;
    }
    if end + XYZ_BYTES as u64 > header.xyz_bytes {
        return bad("its texts do not fit into XYZ");
    }
    if header.source_bytes.checked_sub(cut) != header.abc_bytes.checked_sub(PAGE_BYTES) {
        return bad("its sizes do not add up");
    }
    Ok(())
}

fn text_is_sensible(text: &Text, header: &Header, after: u64) -> bool {
    let whole = |at: u64| at % PAGE_BYTES == 0;
    let inside = |at: u64, bytes: u64, end: u64| at.checked_add(bytes).is_some_and(|e| e <= end);
    whole(text.vaddr)
        && whole(text.bytes)
        && whole(text.xyz_offset)
        && whole(text.source_offset)
        && whole(text.cut_offset)
        && text.bytes != 0
        && text.xyz_offset >= after
        && inside(text.xyz_offset, text.bytes, header.xyz_bytes)
        && text.source_offset < header.source_bytes
        && inside(text.cut_offset, text.cut_bytes, header.source_bytes)
        && text.cut_offset >= text.source_offset
        && inside(
            text.cut_offset - text.source_offset,
            text.cut_bytes,
            text.bytes,
        )
        && (text.phdr as usize) < header.phdrs.len()
}

/// Whether an XYZ is the one that a header names, each byte of it.
///
/// # Errors
///
/// [`Failure::Bad`], [`Failure::Digest`].
pub fn check_xyz(xyz: &[u8], header: &Header) -> Result<(), Failure> {
    let end = XyzEnd::parse(xyz)?;
    if end.xyz_bytes != header.xyz_bytes || end.text_sha256 != header.text_sha256 {
        return Err(Failure::bad("XYZ", "it is that of another program"));
    }
    let pages = |text: &Text| {
        let start = usize_of(text.xyz_offset);
        xyz.get(start..start.saturating_add(usize_of(text.bytes)))
    };
    let mut texts = Vec::new();
    for text in &header.texts {
        let bytes = pages(text).ok_or_else(|| Failure::bad("XYZ", "it lacks a text"))?;
        texts.push((text.bytes, bytes));
    }
    if digest_texts(texts.into_iter()) != header.text_sha256 {
        return Err(Failure::Digest {
            what: "XYZ",
            part: "text",
        });
    }
    let behind = header.texts.last().map_or(0, |t| t.xyz_offset + t.bytes);
    let behind = xyz.get(usize_of(behind)..xyz.len() - XYZ_BYTES);
    let rest = xyz.get(..usize_of(PAGE_BYTES)).zip(behind);
    let (head, behind) = rest.ok_or_else(|| Failure::bad("XYZ", "it lacks a part"))?;
    if digest_rest(head, behind) != end.rest_sha256 {
        return Err(Failure::Digest {
            what: "XYZ",
            part: "symbols",
        });
    }
    Ok(())
}
