// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The EFI system partition: where it is mounted, what of ours is on it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::bytes::index;
use crate::bzimage::{self, Kernel};
use crate::fault::{Fault, at};
use crate::pe::{self, Headers};
use crate::system::System;
use crate::unified;

const MOUNTS: &str = "proc/mounts";
/// Where Debian, and systemd, mount it.
const PLACES: [&str; 3] = ["/boot/efi", "/efi", "/boot"];
const FOLDER: &str = "EFI/remanence";
/// The image as firmware names it.
pub const LOADER: &str = r"\EFI\remanence\remanence.efi";

/// The partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Esp {
    /// Where it is mounted.
    pub folder: PathBuf,
    /// Its device, if a file system is mounted there.
    device: Option<String>,
}

/// The partition as firmware's boot entries have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The disk's device.
    pub disk: String,
    /// The number of the partition.
    pub part: u32,
}

/// What is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The kernel in the image.
    pub kernel: Kernel,
    /// Whether the image has a signature.
    pub is_signed: bool,
}

/// A word of /proc/mounts, which has four characters as octal numbers.
fn unescape(word: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let replace = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    escapes.into_iter().fold(word.to_owned(), replace)
}

/// The last mounted file system at *folder*: its device and its kind.
fn mounted(mounts: &str, folder: &str) -> Option<(String, String)> {
    let mut all = mounts.lines().rev().map(|line| line.split(' '));
    all.find_map(|mut words| {
        let (device, place, kind) = (words.next()?, words.next()?, words.next()?);
        (unescape(place) == folder).then(|| (unescape(device), kind.to_owned()))
    })
}

impl Esp {
    /// The one that is mounted, or what is at *given*.
    ///
    /// # Errors
    /// One line, if there is none.
    pub fn find(system: &System, given: Option<&Path>) -> Result<Self, Fault> {
        if let Some(given) = given {
            let folder = system.path(given);
            if !folder.is_dir() {
                return Err(Fault::new(format!("{}: no folder", given.display())));
            }
            let mounts = fs::read_to_string(system.path(MOUNTS)).unwrap_or_default();
            let device = mounted(&mounts, &given.display().to_string()).map(|(device, _)| device);
            return Ok(Self { folder, device });
        }
        for place in PLACES {
            // Mounts it, if that is done on demand.
            let _ = fs::metadata(system.path(place).join("."));
        }
        let mounts = system.path(MOUNTS);
        let mounts = fs::read_to_string(&mounts).map_err(at(mounts.display()))?;
        for place in PLACES {
            let found = mounted(&mounts, place);
            if let Some((device, _)) = found.filter(|(_, kind)| kind == "vfat") {
                return Ok(Self {
                    folder: system.path(place),
                    device: Some(device),
                });
            }
        }
        let places = PLACES.join(", ");
        Err(Fault::new(format!(
            "no EFI system partition is mounted at {places}: mount it, or name it by --esp"
        )))
    }

    /// Where our files are.
    #[must_use]
    pub fn own(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.own().join("remanence.efi")
    }

    /// The image before it.
    #[must_use]
    pub fn previous(&self) -> PathBuf {
        self.own().join("remanence-old.efi")
    }

    /// The image that is written.
    #[must_use]
    pub fn draft(&self) -> PathBuf {
        self.own().join("remanence-new.efi")
    }

    /// Its disk and its number there.
    ///
    /// # Errors
    /// One line, if it is no partition.
    pub fn place(&self, system: &System) -> Result<Place, Fault> {
        let Some(device) = &self.device else {
            let folder = self.folder.display();
            return Err(Fault::new(format!("nothing is mounted at {folder}")));
        };
        let none = || Fault::new(format!("{device} is no partition of a disk"));
        let real = system.path(device).canonicalize();
        let real = real.unwrap_or_else(|_| PathBuf::from(device));
        let name = real.file_name().ok_or_else(none)?;
        let folder = system.path("sys/class/block").join(name);
        let folder = folder.canonicalize().map_err(|_| none())?;
        let part = fs::read_to_string(folder.join("partition")).map_err(|_| none())?;
        let part = part.trim().parse().map_err(|_| none())?;
        let disk = folder.parent().and_then(Path::file_name).ok_or_else(none)?;
        // As the kernel writes a `/` in a device's name.
        let disk = disk.to_string_lossy().replace('!', "/");
        let disk = format!("/dev/{disk}");
        Ok(Place { disk, part })
    }

    /// What the image is; `None` if there is none.
    ///
    /// # Errors
    /// One line, if it cannot be read or is no image of ours.
    pub fn installed(&self) -> Result<Option<Installed>, Fault> {
        let path = self.image();
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(path.display())(error)),
            Ok(file) => look(&file).map(Some).map_err(at(path.display())),
        }
    }
}

fn read_at(file: &File, place: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut found = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        match file.read_at(&mut found[done..], place + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    found.truncate(done);
    Ok(found)
}

fn look(file: &File) -> Result<Installed, Fault> {
    let io = |error: io::Error| Fault::new(error.to_string());
    let bytes = file.metadata().map_err(io)?.len();
    let head = read_at(file, 0, pe::HEAD_BYTES).map_err(io)?;
    let headers = Headers::read(&head, bytes)?;
    let found = headers.find(unified::KERNEL);
    let found = found.ok_or_else(|| Fault::new("no kernel is in it"))?;
    let bytes = index(found.bytes.min(found.raw_bytes)).min(bzimage::HEAD_BYTES);
    let kernel = read_at(file, found.raw_at.into(), bytes).map_err(io)?;
    Ok(Installed {
        kernel: Kernel::read(&kernel)?,
        is_signed: headers.signature.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bzimage::tests::kernel;
    use crate::pe::tests::loader;
    use crate::system::tests::Fake;
    use crate::unified::unified;
    use std::os::unix::fs::symlink;

    fn folders(fake: &Fake, mounts: &str) {
        fake.write("proc/mounts", mounts);
        for place in PLACES {
            fs::create_dir_all(fake.system().path(place)).unwrap();
        }
    }

    #[test]
    fn it_is_found_where_it_is_mounted() {
        for (mounts, place) in [
            (
                "/dev/sda2 / ext4 rw 0 0\n/dev/sda1 /boot/efi vfat rw 0 0\n",
                "boot/efi",
            ),
            (
                "systemd-1 /efi autofs rw 0 0\n/dev/sda1 /efi vfat rw 0 0\n",
                "efi",
            ),
            (
                "/dev/sda1 /boot vfat rw 0 0\n/dev/sdb1 /boot/efi ext4 rw 0 0\n",
                "boot",
            ),
        ] {
            let fake = Fake::new();
            folders(&fake, mounts);
            let esp = Esp::find(&fake.system(), None).unwrap();
            assert_eq!(
                (esp.folder, esp.device.as_deref()),
                (fake.path(place), Some("/dev/sda1"))
            );
        }
    }

    #[test]
    fn without_one_it_is_one_line() {
        let fake = Fake::new();
        folders(
            &fake,
            "/dev/sda1 /boot/efi vfat rw 0 0\n/dev/sdb1 /boot/efi ext4 rw 0 0\n",
        );
        let why = Esp::find(&fake.system(), None).unwrap_err().to_string();
        assert!(why.ends_with("mount it, or name it by --esp"), "{why}");
        let why = Esp::find(&fake.system(), Some(Path::new("/none"))).unwrap_err();
        assert_eq!(why.to_string(), "/none: no folder");
    }

    #[test]
    fn a_named_one_may_be_any_folder() {
        let fake = Fake::new();
        folders(&fake, "/dev/sdb3 /my\\040esp vfat rw 0 0\n");
        fs::create_dir(fake.path("my esp")).unwrap();
        let esp = Esp::find(&fake.system(), Some(Path::new("/my esp"))).unwrap();
        assert_eq!(esp.device.as_deref(), Some("/dev/sdb3"));
        let esp = Esp::find(&fake.system(), Some(Path::new("/efi"))).unwrap();
        let why = esp.place(&fake.system()).unwrap_err().to_string();
        assert!(why.starts_with("nothing is mounted at "), "{why}");
    }

    #[test]
    fn its_disk_is_that_of_its_device() {
        let fake = Fake::new();
        folders(&fake, "/dev/disk/by-label/ESP /efi vfat rw 0 0\n");
        let esp = Esp::find(&fake.system(), None).unwrap();
        let why = esp.place(&fake.system()).unwrap_err().to_string();
        assert_eq!(why, "/dev/disk/by-label/ESP is no partition of a disk");
        fake.write("dev/nvme0n1p2", "");
        fs::create_dir_all(fake.path("dev/disk/by-label")).unwrap();
        symlink("../../nvme0n1p2", fake.path("dev/disk/by-label/ESP")).unwrap();
        fake.write("sys/devices/pci0/cciss!c0d0/nvme0n1p2/partition", "2\n");
        fs::create_dir_all(fake.path("sys/class/block")).unwrap();
        let real = "../../devices/pci0/cciss!c0d0/nvme0n1p2";
        symlink(real, fake.path("sys/class/block/nvme0n1p2")).unwrap();
        let place = esp.place(&fake.system()).unwrap();
        assert_eq!((place.disk.as_str(), place.part), ("/dev/cciss/c0d0", 2));
    }

    #[test]
    fn what_is_on_it_is_known() {
        let fake = Fake::new();
        folders(&fake, "/dev/sda1 /efi vfat rw 0 0\n");
        let esp = Esp::find(&fake.system(), None).unwrap();
        assert_eq!(esp.installed().unwrap(), None);
        let image = "efi/EFI/remanence/remanence.efi";
        fake.write(image, loader());
        let why = esp.installed().unwrap_err().to_string();
        assert!(why.ends_with("remanence.efi: no kernel is in it"), "{why}");
        let kernel = kernel("6.12-remanence (a@b) #1", 0);
        fake.write(
            image,
            unified(&loader(), &[(unified::KERNEL, &kernel)]).unwrap(),
        );
        let found = esp.installed().unwrap().unwrap();
        assert_eq!(
            (found.kernel.release(), found.is_signed),
            ("6.12-remanence", false)
        );
        fake.write(image, b"MZ");
        esp.installed().unwrap_err();
    }
}
