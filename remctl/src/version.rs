// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Versions of kernels in /boot, in the order of Debian's packages.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use crate::fault::{Fault, at};

/// Kernels of these packages have it in their release.
const MARK: &str = "-remanence";
/// What an editor or dpkg leaves beside a file.
const LEFT_OVER: [&str; 5] = [".old", ".bak", ".dpkg-new", ".dpkg-tmp", ".dpkg-bak"];

fn weight(byte: u8) -> i32 {
    match byte {
        b'~' => -1,
        _ if byte.is_ascii_alphabetic() => i32::from(byte),
        _ => i32::from(byte) + 256,
    }
}

/// Takes what is not digits from the front, or the number.
fn split(text: &[u8], digits: bool) -> (&[u8], &[u8]) {
    let is_other = |byte: &u8| byte.is_ascii_digit() != digits;
    text.split_at(text.iter().position(is_other).unwrap_or(text.len()))
}

/// As `dpkg --compare-versions` has it, for what stands before and after no dash.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let ((words_a, rest_a), (words_b, rest_b)) = (split(a, false), split(b, false));
        for n in 0..words_a.len().max(words_b.len()) {
            let of = |words: &[u8]| words.get(n).map_or(0, |&byte| weight(byte));
            match of(words_a).cmp(&of(words_b)) {
                Ordering::Equal => {}
                other => return other,
            }
        }
        let ((number_a, next_a), (number_b, next_b)) = (split(rest_a, true), split(rest_b, true));
        let of = |number: &[u8]| {
            let zeros = number.iter().take_while(|&&byte| byte == b'0').count();
            (number.len() - zeros, number[zeros..].to_vec())
        };
        match of(number_a).cmp(&of(number_b)) {
            Ordering::Equal => {}
            other => return other,
        }
        (a, b) = (next_a, next_b);
    }
    Ordering::Equal
}

/// The newest kernel of ours in a folder.
///
/// # Errors
/// One line, if there is none.
pub fn newest(boot: &Path) -> Result<String, Fault> {
    let entries = fs::read_dir(boot).map_err(at(boot.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let versions = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned));
    let ours = versions.filter(|version| {
        version.contains(MARK) && !LEFT_OVER.iter().any(|end| version.ends_with(end))
    });
    ours.max_by(|a, b| compare(a, b)).ok_or_else(|| {
        let boot = boot.display();
        Fault::new(format!(
            "no {boot}/vmlinuz-*{MARK}*: apt install linux-image-remanence"
        ))
    })
}

/// Refuses what cannot be a part of a file's name.
///
/// # Errors
/// One line.
pub fn check(version: &str) -> Result<(), Fault> {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "+-.~_".contains(letter);
    if version.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && version.chars().all(is_usual)
    {
        return Ok(());
    }
    Err(Fault::new(format!("{version:?} is no version of a kernel")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_packages() {
        let ascending = [
            "6.9.1-remanence",
            "6.12~rc1-remanence",
            "6.12-remanence",
            "6.12.9-remanence",
            "6.12.57-remanence",
            "6.12.57-remanence-server",
            "6.12.057-remanence-server2",
        ];
        for (n, a) in ascending.iter().enumerate() {
            for (m, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), n.cmp(&m), "{a} {b}");
            }
        }
        assert_eq!(compare("1.02", "1.2"), Ordering::Equal);
    }

    #[test]
    fn newest_is_one_of_ours() {
        let boot = tempfile::tempdir().unwrap();
        let why = newest(boot.path()).unwrap_err().to_string();
        assert!(why.ends_with("apt install linux-image-remanence"), "{why}");
        for version in [
            "6.13-amd64",
            "6.9-remanence",
            "6.12-remanence",
            "6.12-remanence.old",
        ] {
            fs::write(boot.path().join(format!("vmlinuz-{version}")), b"").unwrap();
        }
        fs::write(boot.path().join("initrd.img-6.99-remanence"), b"").unwrap();
        assert_eq!(newest(boot.path()).unwrap(), "6.12-remanence");
        newest(&boot.path().join("none")).unwrap_err();
    }

    #[test]
    fn paths_are_no_versions() {
        check("6.12.57+deb13-remanence").unwrap();
        for bad in ["", "../x", "a/b", "-x", "6.12 x", "6.12\n"] {
            let why = check(bad).unwrap_err().to_string();
            assert_eq!(why, format!("{bad:?} is no version of a kernel"));
        }
    }
}
