// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of an installed kernel.

use std::fs;
use std::io::ErrorKind;

use crate::fault::{Fault, at};
use crate::system::System;

/// Where an administrator chooses it.
pub const FILE: &str = "etc/remanence/cmdline";
const RUNNING: &str = "proc/cmdline";
const MEMTYPE: &str = "memtype=nvram";

/// Words of a command line; quotes keep spaces together, as the kernel has them.
fn words(text: &str) -> Vec<&str> {
    let mut quoted = false;
    let ends = |letter: char| {
        quoted ^= letter == '"';
        letter.is_whitespace() && !quoted
    };
    text.split(ends).filter(|word| !word.is_empty()).collect()
}

fn of_file(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(words).collect()
}

fn of_running(text: &str) -> Vec<&str> {
    let is_of_loader = |word: &&str| word.starts_with("BOOT_IMAGE=") || word.starts_with("initrd=");
    words(text)
        .into_iter()
        .filter(|word| !is_of_loader(word))
        .collect()
}

/// The chosen one, or that of the running kernel; with a word for the kinds of memory.
///
/// # Errors
/// Those of the file system.
pub fn read(system: &System) -> Result<String, Fault> {
    let path = system.path(FILE);
    let (text, chosen) = match fs::read_to_string(&path) {
        Ok(text) => (text, true),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path = system.path(RUNNING);
            (
                fs::read_to_string(&path).map_err(at(path.display()))?,
                false,
            )
        }
        Err(error) => return Err(at(path.display())(error)),
    };
    let mut words = if chosen {
        of_file(&text)
    } else {
        of_running(&text)
    };
    if !words.iter().any(|word| word.starts_with("memtype=")) {
        words.push(MEMTYPE);
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;

    #[test]
    fn running_one_is_taken_without_words_of_its_loader() {
        let fake = Fake::new();
        fake.write(
            "proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=UUID=1 initrd=\\x ro dyndbg=\"file  initrd= +p\" quiet\n",
        );
        let taken = "root=UUID=1 ro dyndbg=\"file  initrd= +p\" quiet memtype=nvram";
        assert_eq!(read(&fake.system()).unwrap(), taken);
    }

    #[test]
    fn chosen_one_goes_first() {
        let fake = Fake::new();
        fake.write("proc/cmdline", "quiet");
        fake.write(
            "etc/remanence/cmdline",
            "# mine\nroot=/dev/vda1\nmemtype=mixed\n",
        );
        assert_eq!(
            read(&fake.system()).unwrap(),
            "root=/dev/vda1 memtype=mixed"
        );
    }

    #[test]
    fn without_any_it_is_one_line() {
        let fake = Fake::new();
        let why = read(&fake.system()).unwrap_err().to_string();
        assert!(why.contains("proc/cmdline: No such file"), "{why}");
        std::fs::create_dir_all(fake.path("etc/remanence/cmdline")).unwrap();
        let why = read(&fake.system()).unwrap_err().to_string();
        assert!(why.contains("etc/remanence/cmdline: "), "{why}");
    }
}
