// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loader with its files as sections of one image, so that one signature covers all of it. The
//! same bytes as of `lab/machine/unified.py`; names of sections are in `loader/entry/boot_efi.c`.

use crate::bytes::index;
use crate::fault::Fault;
use crate::pe::{self, HEAD_BYTES, Headers, SECTION_BYTES};

/// The section of the kernel.
pub const KERNEL: &str = ".linux";
/// The section of its command line.
pub const CMDLINE: &str = ".cmdline";
/// The section of its initial RAM disk.
pub const INITRD: &str = ".initrd";

const READ_DATA: u32 = 0x4000_0040;
const ALIGN_BYTES: u64 = 4096;

fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN_BYTES)
}

fn word(value: u64) -> Result<u32, Fault> {
    u32::try_from(value).map_err(|_| Fault::new("the files are larger than an image can be"))
}

fn pad(image: &mut Vec<u8>) {
    image.resize(image.len().next_multiple_of(HEAD_BYTES), 0);
}

/// *loader* with files by the names of their sections; empty ones are left out.
///
/// # Errors
/// One line, if the loader is none, is signed, has such a section or no room for another.
pub fn unified(loader: &[u8], files: &[(&str, &[u8])]) -> Result<Vec<u8>, Fault> {
    let headers = Headers::read(loader, loader.len() as u64)?;
    if headers.signature.is_some() {
        return Err(Fault::new("it is signed: sign the image, not the loader"));
    }
    let room_end = headers.sections.iter().filter(|one| one.raw_bytes > 0);
    let room_end = room_end.map(|one| index(one.raw_at)).min();
    let room_end = room_end
        .unwrap_or(HEAD_BYTES)
        .min(HEAD_BYTES)
        .min(index(headers.header_bytes));
    let mut image = loader.to_vec();
    let mut address = u64::from(headers.image_bytes);
    let mut at = headers.table + headers.sections.len() * SECTION_BYTES;
    let mut count = headers.sections.len();
    for (name, data) in files.iter().filter(|(_, data)| !data.is_empty()) {
        if headers.find(name).is_some() {
            return Err(Fault::new(format!("it has a section {name} already")));
        }
        if at + SECTION_BYTES > room_end {
            return Err(Fault::new(
                "it has no room for the header of another section",
            ));
        }
        address = aligned(address);
        pad(&mut image);
        let raw_bytes = aligned(data.len() as u64);
        let words = [data.len() as u64, address, raw_bytes, image.len() as u64];
        let mut header = pe::padded(name).to_vec();
        for value in words {
            header.extend(word(value)?.to_le_bytes());
        }
        header.extend([0; 12]);
        header.extend(READ_DATA.to_le_bytes());
        image[at..at + SECTION_BYTES].copy_from_slice(&header);
        image.extend_from_slice(data);
        pad(&mut image);
        address += raw_bytes;
        at += SECTION_BYTES;
        count += 1;
    }
    word(image.len() as u64)?;
    let count = u16::try_from(count).map_err(|_| Fault::new("it has too many sections"))?;
    put(
        &mut image,
        headers.pe + pe::SECTION_COUNT,
        &count.to_le_bytes(),
    );
    let bytes = word(aligned(address))?.to_le_bytes();
    put(&mut image, headers.pe + pe::IMAGE_BYTES, &bytes);
    Ok(image)
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::tests::{loader, with_u32};
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    // As in tests/unit/test_unified.py, which has the same digest.
    const GOLDEN: &str = "d0ddaa0278e5150353d2a3059ce3f82e9b3b9a6bb83910144cdaa81fc4a763df";

    fn files(kernel: &[u8]) -> [(&'static str, &[u8]); 4] {
        [
            (KERNEL, kernel),
            (CMDLINE, b"console=ttyS0"),
            (INITRD, b""),
            (".protect", b"s\n"),
        ]
    }

    #[test]
    fn bytes_are_those_of_the_lab() {
        let image = unified(&loader(), &files(&[b'k'; 5000])).unwrap();
        let digest: String = Sha256::digest(&image)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(digest, GOLDEN);
        assert_eq!(unified(&loader(), &[]).unwrap(), loader());
    }

    #[test]
    fn sections_are_found_again() {
        let image = unified(&loader(), &files(&[b'k'; 5000])).unwrap();
        let headers = Headers::read(&image, image.len() as u64).unwrap();
        for (name, data) in files(&[b'k'; 5000]) {
            let found = headers.find(name).map(|one| {
                let at = index(one.raw_at);
                &image[at..at + index(one.bytes)]
            });
            assert_eq!(found.unwrap_or_default(), data, "{name}");
        }
    }

    #[test]
    fn loaders_that_cannot_take_files_are_refused() {
        let refusal = |loader: &[u8]| unified(loader, &files(b"k")).unwrap_err().to_string();
        let once = unified(&loader(), &files(b"k")).unwrap();
        assert_eq!(refusal(&once), "it has a section .linux already");
        // Room for two more sections, and for none.
        for header_bytes in [0x148 + 4 * 40, 0x148 + 2 * 40] {
            let full = with_u32(0x94, header_bytes);
            assert_eq!(
                refusal(&full),
                "it has no room for the header of another section"
            );
        }
        let mut signed = with_u32(0xe8, 0x1000);
        signed[0xec] = 8;
        assert_eq!(
            refusal(&signed),
            "it is signed: sign the image, not the loader"
        );
        let large = with_u32(0x90, u32::MAX);
        assert_eq!(refusal(&large), "the files are larger than an image can be");
        assert_eq!(refusal(b""), "no UEFI application for x86-64");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Goal: whatever a loader's headers say, the result is one line, or an image that is
        /// read again with all files in it.
        #[test]
        fn hostile_loaders_are_refused_or_whole(
            changes in prop::collection::vec((0_usize..0x1c0, any::<u8>()), 1..8),
            bytes in prop::option::of(0_usize..0x13000),
        ) {
            let mut hostile = loader();
            for (at, value) in changes {
                hostile[at] = value;
            }
            hostile.truncate(bytes.unwrap_or(hostile.len()));
            // What is on the partition is read in the same way.
            let is_read = Headers::read(&hostile, hostile.len() as u64).is_ok();
            prop_assert_eq!(pe::payload(&hostile).is_ok(), is_read);
            if let Ok(image) = unified(&hostile, &files(b"kernel")) {
                let headers = Headers::read(&image, image.len() as u64).unwrap();
                for (name, data) in files(b"kernel").iter().filter(|(_, data)| !data.is_empty()) {
                    let found = headers.find(name).unwrap();
                    prop_assert_eq!(index(found.bytes), data.len());
                    let at = index(found.raw_at);
                    prop_assert_eq!(&image[at..at + data.len()], *data);
                }
            }
        }
    }
}
