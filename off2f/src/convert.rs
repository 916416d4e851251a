// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ELF to ABC and XYZ.

use std::thread;

use sha2::{Digest, Sha256};

use crate::error::{Failure, Refusal};
use crate::format::{FILE_MAX, Header, PAGE_BYTES, Text, XYZ_BYTES, XyzEnd};
use crate::names::Names;
use crate::plan::Plan;

const PHOFF_AT: usize = 32; // of e_phoff in the ELF header

/// A converted program.
#[derive(Debug)]
pub struct Pair<'a> {
    /// What the header says.
    pub header: Header,
    /// The file for the disk.
    pub abc: Vec<u8>,
    /// Each text's bytes, as far as the ELF has them, and where they are in XYZ.
    pub texts: Vec<(Text, &'a [u8])>,
    /// The first page of XYZ, and what it has behind its texts.
    pub names: Names,
    /// What XYZ ends with.
    pub end: XyzEnd,
}

impl Pair<'_> {
    /// XYZ in one piece, holes as zeros.
    #[must_use]
    pub fn xyz_bytes(&self) -> Vec<u8> {
        let mut xyz = self.names.head.clone();
        for (text, bytes) in &self.texts {
            xyz.resize(usize_of(text.xyz_offset), 0);
            xyz.extend_from_slice(bytes);
            xyz.resize(usize_of(text.xyz_offset + text.bytes), 0);
        }
        xyz.extend(&self.names.behind);
        xyz.extend(self.end.bytes());
        xyz
    }
}

/// On the only machine this is for, nothing is cut off.
pub(crate) fn usize_of(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The digest of texts' pages: bytes, and zeros up to the end of the last page.
pub(crate) fn digest_texts<'a>(texts: impl Iterator<Item = (u64, &'a [u8])>) -> [u8; 32] {
    let mut sum = Sha256::new();
    for (pages_bytes, bytes) in texts {
        sum.update(bytes);
        sum.update(vec![0; usize_of(pages_bytes) - bytes.len()]);
    }
    sum.finalize().into()
}

/// The digest of all of XYZ that is neither text nor its end.
pub(crate) fn digest_rest(head: &[u8], behind: &[u8]) -> [u8; 32] {
    let mut sum = Sha256::new();
    sum.update(head);
    sum.update(behind);
    sum.finalize().into()
}

/// Converts an ELF. `path` is where XYZ will be found when the program is started.
///
/// # Errors
///
/// [`Failure::Refused`], or a path that does not fit.
pub fn convert<'a>(elf: &'a [u8], path: &str) -> Result<Pair<'a>, Failure> {
    let plan = Plan::of(elf)?;
    let texts: Vec<(Text, &[u8])> = plan
        .texts
        .iter()
        .map(|text| {
            let start = usize_of(text.source_offset);
            let end = elf.len().min(start + usize_of(text.bytes));
            (*text, &elf[start..end])
        })
        .collect();
    let mut ehdr = [0; 64];
    ehdr.copy_from_slice(&elf[..64]);
    let phoff = plan.abc_offset(plan.phoff).unwrap_or_default();
    ehdr[PHOFF_AT..PHOFF_AT + 8].copy_from_slice(&phoff.to_le_bytes());
    let mut abc = Vec::with_capacity(usize_of(plan.abc_bytes));
    abc.resize(usize_of(PAGE_BYTES), 0);
    let (text_sha256, rest_sha256) = thread::scope(|scope| {
        let text = scope.spawn(|| digest_texts(texts.iter().map(|(t, b)| (t.bytes, *b))));
        rest(&plan, elf, &mut abc);
        let rest: [u8; 32] = Sha256::digest(&abc[usize_of(PAGE_BYTES)..]).into();
        // The thread only adds up; were it to panic the whole program would end.
        (text.join().unwrap_or_default(), rest)
    });
    let names = Names::of(elf, &plan.texts, plan.texts_end);
    let end = XyzEnd {
        xyz_bytes: plan.texts_end + (names.behind.len() + XYZ_BYTES) as u64,
        text_sha256,
        build_id: plan.build_id,
        rest_sha256: digest_rest(&names.head, &names.behind),
    };
    if end.xyz_bytes >= FILE_MAX {
        return Err(Refusal::TooMuch("text").into());
    }
    let header = Header {
        machine: u16::from_le_bytes([ehdr[18], ehdr[19]]),
        kind: plan.kind,
        abc_bytes: plan.abc_bytes,
        xyz_bytes: end.xyz_bytes,
        source_bytes: plan.source_bytes,
        ehdr,
        text_sha256,
        rest_sha256,
        build_id: plan.build_id,
        texts: plan.texts,
        phdrs: plan.phdrs,
        path: path.as_bytes().to_vec(),
    };
    abc[..usize_of(PAGE_BYTES)].copy_from_slice(&header.page()?);
    Ok(Pair {
        header,
        abc,
        texts,
        names,
        end,
    })
}

/// Appends to the header page all of the ELF that is not cut out.
fn rest(plan: &Plan, elf: &[u8], abc: &mut Vec<u8>) {
    let mut cuts: Vec<(usize, usize)> = plan
        .texts
        .iter()
        .map(|t| (usize_of(t.cut_offset), usize_of(t.cut_bytes)))
        .collect();
    cuts.sort_unstable();
    let mut at = 0;
    for (start, bytes) in cuts.into_iter().filter(|(_, bytes)| *bytes != 0) {
        abc.extend_from_slice(&elf[at..start]);
        at = start + bytes;
    }
    abc.extend_from_slice(&elf[at..]);
}
