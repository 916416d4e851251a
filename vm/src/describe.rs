// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest consists of beside its memory: an image is entered only where all of it is as the
//! image left it.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use remanence_format::{REM_VM_DIGEST_BYTES, usize_of};
use sha2::{Digest, Sha256};

use crate::config::GuestConfig;

/// One line for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description(Vec<String>);

/// SHA-256 of a description.
pub type Fingerprint = [u8; usize_of(REM_VM_DIGEST_BYTES)];

fn host_cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let parts = ["model name", "stepping", "microcode", "flags"];
    let lines = text.lines().take_while(|line| !line.is_empty());
    let kept: Vec<&str> = lines
        .filter(|line| parts.iter().any(|part| line.starts_with(part)))
        .collect();
    let mut hex = String::new();
    for byte in Sha256::digest(kept.join("\n")).iter().take(8) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn disk(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(found) => format!(
            "disk {}: inode {}, {} bytes, changed {}.{:09}",
            path.display(),
            found.ino(),
            found.size(),
            found.mtime(),
            found.mtime_nsec()
        ),
        Err(error) => format!("disk {}: {error}", path.display()),
    }
}

impl Description {
    /// What is there now. A guest that runs may change its disks: describe it when it is stopped.
    #[must_use]
    pub fn of(config: &GuestConfig, qemu_version: &str) -> Self {
        let mut lines = vec![
            format!("qemu {qemu_version}"),
            format!("machine {}", config.machine),
            format!("memory {} bytes", config.ram_bytes),
        ];
        if config.accel.starts_with("kvm") && Path::new("/dev/kvm").exists() {
            lines.push(format!("accel kvm, CPU {}", host_cpu()));
        } else {
            lines.push("accel tcg".to_owned());
        }
        lines.extend(config.args.iter().map(|word| format!("argument {word}")));
        lines.extend(config.disks.iter().map(|path| disk(path)));
        Self(lines)
    }

    /// What is compared.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Sha256::digest(self.text()).into()
    }

    /// As it is kept beside the record, for people.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.join("\n")
    }

    /// The first part that differs from a kept text, as both have it.
    #[must_use]
    pub fn difference(&self, kept: &str) -> String {
        let mut theirs = kept.lines();
        for ours in &self.0 {
            match theirs.next() {
                Some(their) if their == ours => {}
                Some(their) => return format!("now {ours}; at the save {their}"),
                None => return format!("now {ours}; nothing at the save"),
            }
        }
        match theirs.next() {
            Some(their) => format!("nothing now; at the save {their}"),
            None => "a part that is not listed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(disk: &Path) -> GuestConfig {
        let text = format!(
            "folder = \"/f\"\nhold_up_us = 1\n[[guest]]\nname = \"a\"\nram_bytes = 1048576\n\
             args = [\"-smp\", \"2\"]\ndisks = [{:?}]\n",
            disk.to_str().unwrap()
        );
        let config = crate::config::Config::parse(&text).unwrap();
        config.guests.into_iter().next().unwrap()
    }

    /// Goal: each part counts, and the difference is named.
    #[test]
    fn each_part_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, "1234").unwrap();
        let mut config = guest(&path);
        let before = Description::of(&config, "10.0.2");
        assert_eq!(before, Description::of(&config, "10.0.2"));
        assert!(
            Description::of(&config, "10.0.3")
                .difference(&before.text())
                .contains("10.0.2")
        );
        std::fs::write(&path, "12345").unwrap();
        let changed = Description::of(&config, "10.0.2");
        assert_ne!(changed.fingerprint(), before.fingerprint());
        assert!(changed.difference(&before.text()).contains("disk"));
        config.args.push("-nographic".to_owned());
        let more = Description::of(&config, "10.0.2");
        assert!(more.difference(&changed.text()).contains("-nographic"));
    }
}
