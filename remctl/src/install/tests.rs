// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Installing and removing on a machine that is a folder, with programs that remember their words.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::bytes::index;
use crate::bzimage::tests::kernel;
use crate::pe::Headers;
use crate::pe::tests::loader;
use crate::remove::remove;
use crate::system::tests::Fake;
use crate::unified::{CMDLINE, INITRD, KERNEL};

const IMAGE: &str = "boot/efi/EFI/remanence/remanence.efi";
const OLD: &str = "boot/efi/EFI/remanence/remanence-old.efi";
const DRAFT: &str = "boot/efi/EFI/remanence/remanence-new.efi";
const DEBIAN: &str =
    "Boot0000* debian\tHD(1,GPT,5f,0x800,0x1000)/File(\\EFI\\debian\\shimx64.efi)\n";

/// A Debian with a kernel of ours, without variables of firmware.
fn server() -> Fake {
    let fake = Fake::new();
    fake.write("usr/lib/remanence/loader.efi", loader());
    add_kernel(&fake, "6.12.9-remanence", 1);
    fake.write("boot/initrd.img-6.12.9-remanence", "initrd");
    fake.write("proc/cmdline", "BOOT_IMAGE=/x root=/dev/vda2 quiet\n");
    fake.write("proc/mounts", "/dev/vda1 /boot/efi vfat rw 0 0\n");
    fake.write("boot/efi/EFI/debian/shimx64.efi", "shim");
    fake.write("sys/devices/vda/vda1/partition", "1\n");
    fs::create_dir_all(fake.path("sys/class/block")).unwrap();
    symlink("../../devices/vda/vda1", fake.path("sys/class/block/vda1")).unwrap();
    fake
}

fn add_kernel(fake: &Fake, version: &str, last: u8) {
    let text = format!("{version} (a@b) #1 SMP");
    fake.write(&format!("boot/vmlinuz-{version}"), kernel(&text, last));
}

/// With variables of firmware, and an entry of Debian's loader.
fn server_with_firmware() -> Fake {
    let fake = server();
    fake.write("sys/firmware/efi/efivars/BootOrder-8be4df61", "");
    fake.add_program("efibootmgr");
    fake.write("bin/efibootmgr.entries", DEBIAN);
    fake.write("bin/efibootmgr.order", "0000");
    fake
}

fn go(fake: &Fake) -> Result<Report, Fault> {
    install(&fake.system(), &Wishes::default(), false)
}

fn refusal(fake: &Fake) -> String {
    let before = files(fake);
    let why = go(fake).unwrap_err().to_string();
    assert_eq!(why.lines().count(), 1, "{why}");
    assert_eq!(files(fake), before, "{why}");
    why
}

/// All files of the partition.
fn files(fake: &Fake) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![fake.path("boot/efi")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

fn section(image: &[u8], name: &str) -> Vec<u8> {
    let headers = Headers::read(image, image.len() as u64).unwrap();
    let found = headers.find(name).unwrap();
    let at = index(found.raw_at);
    image[at..at + index(found.bytes)].to_vec()
}

fn release_of(image: &[u8]) -> String {
    let kernel = Kernel::read(&section(image, KERNEL)).unwrap();
    kernel.release().to_owned()
}

fn release(fake: &Fake, path: &str) -> String {
    release_of(&fs::read(fake.path(path)).unwrap())
}

#[test]
fn image_has_all_files_of_the_newest_version() {
    let fake = server();
    add_kernel(&fake, "6.12-remanence", 2);
    let report = go(&fake).unwrap();
    let image = fs::read(fake.path(IMAGE)).unwrap();
    assert_eq!(
        (report.version.as_str(), report.bytes),
        ("6.12.9-remanence", image.len() as u64)
    );
    assert_eq!(report.file, fake.path(IMAGE));
    let kernel = fs::read(fake.path("boot/vmlinuz-6.12.9-remanence")).unwrap();
    assert_eq!(section(&image, KERNEL), kernel);
    assert_eq!(
        section(&image, CMDLINE),
        b"root=/dev/vda2 quiet memtype=nvram"
    );
    assert_eq!(section(&image, INITRD), b"initrd");
    assert_eq!(files(&fake).len(), 2, "nothing else is there");
    let stays = "no boot entry: no variables of firmware here; an entry that is there stays";
    assert_eq!(report.notes, [stays]);
}

#[test]
fn repeated_it_changes_nothing() {
    let fake = server_with_firmware();
    go(&fake).unwrap();
    let before = (files(&fake), fake.read("bin/efibootmgr.order"));
    let report = go(&fake).unwrap();
    assert!(
        report.steps.is_empty() && report.notes.is_empty(),
        "{report:?}"
    );
    assert_eq!((files(&fake), fake.read("bin/efibootmgr.order")), before);
}

#[test]
fn previous_image_is_kept() {
    let fake = server();
    go(&fake).unwrap();
    let mut wishes = Wishes::default();
    for (version, old) in [
        ("6.12.10-remanence", "6.12.9-remanence"),
        ("6.12.11-remanence", "6.12.10-remanence"),
    ] {
        add_kernel(&fake, version, 1);
        go(&fake).unwrap();
        assert_eq!(
            (release(&fake, IMAGE).as_str(), release(&fake, OLD).as_str()),
            (version, old)
        );
    }
    wishes.version = Some("6.12.9-remanence".into());
    install(&fake.system(), &wishes, false).unwrap();
    assert_eq!(release(&fake, IMAGE), "6.12.9-remanence");
    assert_eq!(files(&fake).len(), 3);
}

#[test]
fn a_damaged_image_is_not_kept() {
    let fake = server();
    fake.write(IMAGE, "damaged");
    fake.write(OLD, "good");
    go(&fake).unwrap();
    assert_eq!(
        (release(&fake, IMAGE).as_str(), fake.read(OLD).as_str()),
        ("6.12.9-remanence", "good")
    );
}

/// Goal: after each step the image is whole, the old one or the new one, and the command given
/// again ends as it would have.
#[test]
fn interrupted_anywhere_the_image_is_whole() {
    for count in 0.. {
        let fake = server_with_firmware();
        go(&fake).unwrap();
        let entries = fake.read("bin/efibootmgr.entries");
        fake.write("bin/efibootmgr.entries", DEBIAN);
        fake.write("bin/efibootmgr.order", "0000");
        add_kernel(&fake, "6.12.10-remanence", 1);
        let (_, steps, _) = plan(&fake.system(), &Wishes::default()).unwrap();
        assert_eq!(steps.len(), 6);
        let Some(first) = steps.get(..count) else {
            break;
        };
        first.iter().try_for_each(Step::run).unwrap();
        let there = release(&fake, IMAGE);
        let new = if count >= 3 {
            "6.12.10-remanence"
        } else {
            "6.12.9-remanence"
        };
        assert_eq!(there, new, "{count}");
        go(&fake).unwrap();
        assert_eq!(release(&fake, IMAGE), "6.12.10-remanence");
        assert_eq!(fake.read("bin/efibootmgr.entries"), entries);
        assert_eq!(fake.read("bin/efibootmgr.order"), "000B,0000");
    }
}

#[test]
fn a_first_install_appears_at_once() {
    let fake = server();
    fake.write(DRAFT, "left over");
    let (_, steps, _) = plan(&fake.system(), &Wishes::default()).unwrap();
    for (n, step) in steps.iter().enumerate() {
        assert!(!fake.path(IMAGE).exists(), "{n}");
        step.run().unwrap();
    }
    assert_eq!(release(&fake, IMAGE), "6.12.9-remanence");
    assert!(!fake.path(DRAFT).exists() && !fake.path(OLD).exists());
}

#[test]
fn a_write_that_fails_leaves_the_old_image() {
    let fake = server();
    go(&fake).unwrap();
    add_kernel(&fake, "6.12.10-remanence", 1);
    fs::create_dir(fake.path(DRAFT)).unwrap();
    let why = refusal(&fake);
    assert!(why.contains("remanence-new.efi: "), "{why}");
    assert_eq!(release(&fake, IMAGE), "6.12.9-remanence");
}

#[test]
fn firmware_tries_it_first_and_all_others_behind() {
    let fake = server_with_firmware();
    let report = go(&fake).unwrap();
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let log = fake.read("bin/efibootmgr.log");
    let create = concat!(
        "--quiet --create-only --disk /dev/vda --part 1 --label Remanence ",
        "--loader \\EFI\\remanence\\remanence.efi"
    );
    assert_eq!(
        log.lines().filter(|line| *line == create).count(),
        1,
        "{log}"
    );
    assert_eq!(log.lines().last(), Some("--quiet --bootorder 000B,0000"));
    // Another loader was installed and has put itself in front: the entry is not made again.
    fake.write("bin/efibootmgr.order", "0001,000B,0000");
    go(&fake).unwrap();
    assert_eq!(fake.read("bin/efibootmgr.order"), "000B,0001,0000");
    assert_eq!(fake.read("bin/efibootmgr.entries").lines().count(), 2);
}

#[test]
fn no_entry_is_said_where_the_disk_is_unknown() {
    let fake = server_with_firmware();
    fake.write("proc/mounts", "/dev/md0 /boot/efi vfat rw 0 0\n");
    let report = go(&fake).unwrap();
    assert_eq!(
        report.notes,
        ["no boot entry: /dev/md0 is no partition of a disk"]
    );
    assert_eq!(fake.read("bin/efibootmgr.order"), "0000");
    assert_eq!(release(&fake, IMAGE), "6.12.9-remanence");
}

#[test]
fn failures_of_firmware_are_one_line() {
    let fake = server_with_firmware();
    fake.write("bin/efibootmgr.fails", "");
    assert_eq!(
        refusal(&fake),
        "efibootmgr: Could not prepare Boot variable: No space left"
    );
    fs::remove_file(fake.path("bin/efibootmgr")).unwrap();
    assert_eq!(
        refusal(&fake),
        "the program efibootmgr is not there: apt install efibootmgr"
    );
}

#[test]
fn dry_run_changes_nothing() {
    let fake = server_with_firmware();
    let before = files(&fake);
    let report = install(&fake.system(), &Wishes::default(), true).unwrap();
    let root = fake.path("boot/efi/EFI/remanence");
    let root = root.display();
    assert_eq!(
        report.steps,
        [
            format!("make {root}"),
            format!("write {root}/remanence-new.efi, 1 MiB"),
            format!("rename {root}/remanence-new.efi to {root}/remanence.efi"),
            "make the boot entry Remanence: partition 1 of /dev/vda".to_owned(),
            "put it first in the boot order".to_owned(),
        ]
    );
    assert_eq!(files(&fake), before);
    assert_eq!(fake.read("bin/efibootmgr.entries"), DEBIAN);
}

#[test]
fn a_full_partition_is_found_before_anything_is_written() {
    let fake = server();
    let system = fake.system_with_room(|_| Ok(100_000));
    let before = files(&fake);
    let full = |system: &System| {
        let why = install(system, &Wishes::default(), false).unwrap_err();
        why.to_string()
            .replace(&fake.path("boot/efi").display().to_string(), "ESP")
    };
    assert_eq!(full(&system), "ESP has 1 MiB free, 1 MiB are needed");
    assert_eq!(files(&fake), before);
    fake.write(OLD, vec![0; 3 << 20]);
    let previous =
        "ESP has 1 MiB free, 1 MiB are needed; ESP/EFI/remanence/remanence-old.efi has 3 MiB";
    assert_eq!(full(&system), previous);
    // A draft that was left over gives its room back.
    fake.write(DRAFT, vec![0; 1 << 20]);
    install(&system, &Wishes::default(), false).unwrap();
    assert_eq!(release(&fake, IMAGE), "6.12.9-remanence");
}

#[test]
fn what_is_missing_is_named() {
    type Spoil = fn(&Fake);
    let cases: [(Spoil, &str); 8] = [
        (
            |fake| drop(fs::remove_file(fake.path("usr/lib/remanence/loader.efi"))),
            "loader.efi: No such file",
        ),
        (
            |fake| fake.write("usr/lib/remanence/loader.efi", "MZ"),
            "loader.efi: no UEFI application for x86-64",
        ),
        (
            |fake| drop(fs::remove_file(fake.path("boot/vmlinuz-6.12.9-remanence"))),
            "vmlinuz-*-remanence*: apt install linux-image-remanence",
        ),
        (
            |fake| fake.write("boot/vmlinuz-6.12.9-remanence", "x"),
            "no kernel that the loader can boot",
        ),
        (
            |fake| fake.write("proc/mounts", ""),
            "no EFI system partition is mounted",
        ),
        (
            |fake| drop(fs::remove_file(fake.path("proc/cmdline"))),
            "proc/cmdline: No such file",
        ),
        (
            |fake| fake.write("etc/remanence/cmdline", "x".repeat(5000)),
            "the command line has 5014 bytes",
        ),
        (
            |fake| fake.write("etc/remanence/secure-boot.key", ""),
            "secure-boot.crt: No such file",
        ),
    ];
    for (spoil, expected) in cases {
        let fake = server();
        spoil(&fake);
        let why = refusal(&fake);
        assert!(why.contains(expected), "{why}");
    }
    let wishes = Wishes {
        version: Some("../../etc/passwd".into()),
        ..Wishes::default()
    };
    let why = install(&server().system(), &wishes, false)
        .unwrap_err()
        .to_string();
    assert_eq!(why, "\"../../etc/passwd\" is no version of a kernel");
}

#[test]
fn signed_images_keep_the_previous_one_that_differs() {
    let fake = server();
    fake.add_program("sbsign");
    assert!(!go(&fake).unwrap().signed);
    fake.write("etc/remanence/secure-boot.key", "KEY");
    fake.write("etc/remanence/secure-boot.crt", "CRT");
    fake.write(OLD, "older");
    for _ in 0..2 {
        assert!(go(&fake).unwrap().signed);
        assert_eq!(fake.read(OLD), "older");
    }
    let there = Esp::find(&fake.system(), None)
        .unwrap()
        .installed()
        .unwrap()
        .unwrap();
    assert!(there.is_signed);
    add_kernel(&fake, "6.12.10-remanence", 1);
    go(&fake).unwrap();
    assert_eq!(
        (release(&fake, IMAGE).as_str(), release(&fake, OLD).as_str()),
        ("6.12.10-remanence", "6.12.9-remanence")
    );
    // Without the key the same image stays as it is, signed.
    fs::remove_dir_all(fake.path("etc/remanence")).unwrap();
    let report = go(&fake).unwrap();
    assert!(report.signed && report.steps.is_empty(), "{report:?}");
}

#[test]
fn what_will_not_start_or_resume_is_said() {
    let fake = server_with_firmware();
    let variable = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fake.write(
        &format!("sys/firmware/efi/efivars/{variable}"),
        b"\x06\0\0\0\x01",
    );
    fake.write("sys/kernel/remanence/status", "armed\n");
    fake.write("proc/sys/kernel/osrelease", "6.12.8-remanence\n");
    let report = go(&fake).unwrap();
    assert_eq!(
        report.notes,
        [
            "Secure Boot is on and the image is not signed: firmware will refuse it",
            "until the next boot a power failure ends in a cold boot (kernel-differs): the \
             installed kernel is 6.12.9-remanence, not 6.12.8-remanence",
        ]
    );
}

#[test]
fn one_command_works_on_a_partition() {
    let fake = server();
    let held = Lock::take(&fake.path("boot/efi")).unwrap();
    assert!(refusal(&fake).ends_with("boot/efi: another remctl works on it"));
    drop(held);
    go(&fake).unwrap();
}

#[test]
fn removed_there_is_nothing_and_nothing_else_changed() {
    let fake = server_with_firmware();
    let before = files(&fake);
    go(&fake).unwrap();
    add_kernel(&fake, "6.12.10-remanence", 1);
    go(&fake).unwrap();
    fake.write(DRAFT, "left over");
    let installed = files(&fake);
    let (steps, _) = remove(&fake.system(), None, true).unwrap();
    assert_eq!((steps.len(), files(&fake)), (5, installed));
    assert_eq!(steps[0], "remove the boot entry 000B");
    remove(&fake.system(), None, false).unwrap();
    assert_eq!(files(&fake), before);
    assert!(!fake.path("boot/efi/EFI/remanence").exists());
    assert_eq!(fake.read("bin/efibootmgr.entries"), DEBIAN);
    assert_eq!(fake.read("bin/efibootmgr.order"), "0000");
    assert_eq!(
        remove(&fake.system(), None, false).unwrap(),
        (vec![], vec![])
    );
}

#[test]
fn removed_without_firmware_the_entry_is_said() {
    let fake = server();
    go(&fake).unwrap();
    fake.write("boot/efi/EFI/remanence/cold", "");
    let (_, notes) = remove(&fake.system(), Some(Path::new("/boot/efi")), false).unwrap();
    assert!(
        notes[0].starts_with("no variables of firmware here: a boot entry "),
        "{notes:?}"
    );
    assert!(
        fake.path("boot/efi/EFI/remanence/cold").exists(),
        "it is not ours"
    );
    assert!(!fake.path(IMAGE).exists());
    assert!(remove(&fake.system(), None, false).unwrap().1.is_empty());
}
