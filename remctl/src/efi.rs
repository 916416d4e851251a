// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loader, kernel, initrd and command line as one UEFI application, in a file.

use std::path::{Path, PathBuf};

use crate::bzimage::Kernel;
use crate::fault::{Fault, at};
use crate::unified::{CMDLINE, INITRD, KERNEL, unified};
use crate::whole;

/// What it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// The loader.
    pub loader: PathBuf,
    /// The kernel, a bzImage.
    pub kernel: PathBuf,
    /// Its initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// Its command line.
    pub cmdline: String,
}

impl Inputs {
    /// All bytes of the application, and what its kernel is.
    ///
    /// # Errors
    /// One line, if a file cannot be read or the loader would not boot the kernel.
    pub fn image(&self) -> Result<(Vec<u8>, Kernel), Fault> {
        let loader = whole::read(&self.loader)?;
        let kernel = whole::read(&self.kernel)?;
        let initrd = self.initrd.as_deref().map(whole::read).transpose()?;
        let found = Kernel::read(&kernel).map_err(at(self.kernel.display()))?;
        found.check_cmdline(&self.cmdline)?;
        let files = [
            (KERNEL, kernel.as_slice()),
            (CMDLINE, self.cmdline.as_bytes()),
            (INITRD, initrd.as_deref().unwrap_or_default()),
        ];
        let image = unified(&loader, &files).map_err(at(self.loader.display()))?;
        Ok((image, found))
    }

    /// Writes it to a file, which appears whole.
    ///
    /// # Errors
    /// As [`Inputs::image`], and those of the file system; then *out* is as it was.
    pub fn write(&self, out: &Path) -> Result<(), Fault> {
        whole::write(out, &self.image()?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bzimage::tests::kernel;
    use crate::pe::tests::loader;
    use crate::system::tests::Fake;
    use proptest::prelude::*;

    fn inputs(fake: &Fake) -> Inputs {
        fake.write("loader.efi", loader());
        fake.write("vmlinuz", kernel("6.12-remanence (a@b) #1", 0));
        Inputs {
            loader: fake.path("loader.efi"),
            kernel: fake.path("vmlinuz"),
            initrd: None,
            cmdline: "quiet".to_owned(),
        }
    }

    fn names(fake: &Fake) -> Vec<String> {
        let entries = std::fs::read_dir(fake.path(".")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_made_is_one_line() {
        let fake = Fake::new();
        let good = inputs(&fake);
        fake.write("text", "a text");
        let text = fake.path("text");
        let none = Some(fake.path("none"));
        for (bad, expected) in [
            (
                Inputs {
                    loader: text.clone(),
                    ..good.clone()
                },
                "text: no UEFI application for x86-64",
            ),
            (
                Inputs {
                    loader: fake.path("none"),
                    ..good.clone()
                },
                "none: No such file",
            ),
            (
                Inputs {
                    kernel: text,
                    ..good.clone()
                },
                "text: no kernel that the loader can boot",
            ),
            (
                Inputs {
                    initrd: none,
                    ..good.clone()
                },
                "none: No such file",
            ),
            (
                Inputs {
                    cmdline: "x".repeat(3000),
                    ..good.clone()
                },
                "the command line has 3000 bytes",
            ),
        ] {
            let why = bad.write(&fake.path("out")).unwrap_err().to_string();
            assert!(why.contains(expected) && why.lines().count() == 1, "{why}");
            assert_eq!(names(&fake), ["bin", "loader.efi", "text", "vmlinuz"]);
        }
        good.write(&fake.path("out")).unwrap();
        assert_eq!(
            std::fs::read(fake.path("out")).unwrap(),
            good.image().unwrap().0
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Goal: whatever the headers of a loader say, a file is written whole or stays as it was.
        #[test]
        fn hostile_loaders_leave_the_file(
            changes in prop::collection::vec((0_usize..0x1c0, any::<u8>()), 1..4),
            bytes in prop::option::of(0_usize..0x13000),
        ) {
            let fake = Fake::new();
            let inputs = inputs(&fake);
            let mut hostile = loader();
            for (at, value) in changes {
                hostile[at] = value;
            }
            hostile.truncate(bytes.unwrap_or(hostile.len()));
            fake.write("loader.efi", &hostile);
            fake.write("out", "as it was");
            let there = match inputs.write(&fake.path("out")) {
                Ok(()) => inputs.image().unwrap().0,
                Err(_) => b"as it was".to_vec(),
            };
            prop_assert_eq!(std::fs::read(fake.path("out")).unwrap(), there);
            prop_assert_eq!(names(&fake), ["bin", "loader.efi", "out", "vmlinuz"]);
        }
    }
}
