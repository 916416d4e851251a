// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text store: a folder of a file system in NVRAM, with one XYZ for each text whatever number of
//! programs has it.
//!
//! ```text
//! STORE/text/DIGEST.xyz        the text; DIGEST is of the text, its build-id and its symbols
//! STORE/users/DIGEST.xyz/HASH  one for each program that has it: the path of its ABC
//! STORE/abc                    copies of ABCs (bind.rs)
//! STORE/tmp                    what is being written
//! ```
//!
//! The order of steps is such that a cut leaves the old program or the new one: the text is written,
//! synced and read back before it gets its name; then its user is noted; then ABC takes the
//! program's place by one rename. Removal goes the other way. What a cut leaves over in the store (a
//! text or a user too many, never too few) is taken away by [`Store::clean`]; a half of an ABC beside
//! its program, by the program's next installation.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use sha2::{Digest, Sha256};

use crate::attributes::Attributes;
use crate::check::{check_abc, check_xyz, is_abc};
use crate::convert::{Pair, convert};
use crate::error::Failure;
use crate::format::{HUGE_BYTES, Header, XyzEnd};
use crate::restore::restore;

const TEXT_MODE: u32 = 0o555;

/// A text store.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    _lock: File,
    /// Steps until the power is gone, in tests.
    steps: Cell<Option<u32>>,
}

/// What [`Store::clean`] took away.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Cleaned {
    /// Texts that no program has.
    pub texts: u32,
    /// Users that are not there, or have another text.
    pub users: u32,
    /// Files that were being written.
    pub unfinished: u32,
    /// Copies of ABCs that are no program's.
    pub copies: u32,
}

/// A program that has a text of the store, as far as the store knows.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) text: String,
    pub(crate) program: PathBuf,
    file: PathBuf,
}

/// The bytes of a file, without a copy of them.
///
/// # Errors
///
/// [`Failure::Io`].
pub fn map(path: &Path) -> Result<Mmap, Failure> {
    let file = File::open(path).map_err(Failure::io(path))?;
    if !file.metadata().map_err(Failure::io(path))?.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(Failure::io(path)(io::Error::new(
            kind,
            "not a regular file",
        )));
    }
    // SAFETY: programs and texts are not written to while they are read: an installed text is
    // never changed in place, and truncating an input during a run causes a SIGBUS.
    unsafe { Mmap::map(&file) }.map_err(Failure::io(path))
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), Failure> {
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(Failure::io(folder))
}

/// With those above it; a new one is in the folder above it for good.
fn make_folder(folder: &Path) -> Result<(), Failure> {
    let above = match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    if !above.is_dir() {
        make_folder(above)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => sync_folder(above),
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(Failure::io(folder)(error)),
    }
}

/// Hexadecimal digits of bytes, in their order.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digits)
}

/// Name of a text: the same for the same text of the same build with the same symbols.
fn name_of(end: &XyzEnd) -> String {
    let mut sum = Sha256::new();
    sum.update(end.text_sha256);
    sum.update(end.build_id);
    sum.update(end.rest_sha256);
    format!("{}.xyz", hex(&sum.finalize()[..16]))
}

/// An absolute path whose folder is there.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let name = path
        .file_name()
        .ok_or_else(|| Failure::Usage(format!("{}: no name of a file", path.display())))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(folder
        .canonicalize()
        .map_err(Failure::io(folder))?
        .join(name))
}

impl Store {
    /// Opens a store and keeps others out of it until dropped. Makes it where there is none.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`].
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        make_folder(folder)?;
        let folder = folder.canonicalize().map_err(Failure::io(folder))?;
        for name in ["text", "users", "tmp", "abc"] {
            make_folder(&folder.join(name))?;
        }
        let lock = File::open(&folder).map_err(Failure::io(&folder))?;
        lock_for_us(&lock).map_err(Failure::io(&folder))?;
        Ok(Self {
            folder,
            _lock: lock,
            steps: Cell::new(None),
        })
    }

    /// The power goes after this many further steps: they, too, end in an error, and nothing is
    /// tidied up. For tests of what a cut leaves.
    pub fn cut_after(&self, steps: u32) {
        self.steps.set(Some(steps));
    }

    fn step(&self) -> Result<(), Failure> {
        match self.steps.get() {
            None => Ok(()),
            Some(0) => Err(Failure::Usage("the power is gone".into())),
            Some(left) => {
                self.steps.set(Some(left - 1));
                Ok(())
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What stands for a program's path in names of the store.
    pub(crate) fn hash_of(program: &Path) -> String {
        hex(&Sha256::digest(program.as_os_str().as_bytes())[..16])
    }

    fn text_path(&self, name: &str) -> PathBuf {
        self.folder.join("text").join(name)
    }

    fn user_path(&self, name: &str, program: &Path) -> PathBuf {
        let users = self.folder.join("users");
        users.join(name).join(Self::hash_of(program))
    }

    /// The text of an ABC, if it is one of this store's.
    fn name_in(&self, header: &Header) -> Option<String> {
        let path = Path::new(OsStr::from_bytes(&header.path));
        let name = path.file_name()?.to_str()?.to_owned();
        (self.text_path(&name).as_os_str().as_bytes() == header.path).then_some(name)
    }

    /// Converts `elf` and installs it as `program`, which may be the ELF itself. Returns the header.
    ///
    /// # Errors
    ///
    /// All of [`Failure`].
    pub fn install(&self, elf: &Path, program: &Path) -> Result<Header, Failure> {
        let program = absolute(program)?;
        let bytes = map(elf)?;
        if is_abc(&bytes) {
            return Err(Failure::Usage(format!(
                "{}: it is an ABC: install the ELF, which `off2f restore` gives back",
                elf.display()
            )));
        }
        let pair = convert(&bytes, "/")?;
        let name = name_of(&pair.end);
        let text = self.text_path(&name);
        let path = text
            .to_str()
            .ok_or_else(|| Failure::Usage(format!("{}: not UTF-8", text.display())))?;
        let mut header = pair.header.clone();
        header.path = path.as_bytes().to_vec();
        let page = header.page()?;
        let before = self.name_of_program(&program);
        self.put_text(&text, &pair)?;
        self.add_user(&name, &program)?;
        self.release(&program)?;
        self.put_program(&page, &pair.abc[page.len()..], elf, &program)?;
        if let Some(before) = before.filter(|before| *before != name) {
            self.drop_user(&before, &program)?;
        }
        Ok(header)
    }

    fn put_text(&self, path: &Path, pair: &Pair<'_>) -> Result<(), Failure> {
        if path.exists() {
            // Installed before, perhaps long ago: bits rot.
            return check_xyz(&map(path)?, &pair.header);
        }
        let tmp = self.temporary();
        let file = self.create(&tmp, TEXT_MODE)?;
        let io = |e| Failure::io(&tmp)(e);
        file.set_len(pair.header.xyz_bytes).map_err(io)?;
        let huge = pair.texts.iter().any(|(text, _)| text.bytes >= HUGE_BYTES);
        if huge {
            reserve(&file, pair.header.xyz_bytes).map_err(io)?;
        }
        file.write_all_at(&pair.names.head, 0).map_err(io)?;
        for (text, bytes) in &pair.texts {
            self.step()?;
            file.write_all_at(bytes, text.xyz_offset).map_err(io)?;
        }
        let end = pair.header.xyz_bytes - crate::format::XYZ_BYTES as u64;
        let behind = &pair.names.behind;
        file.write_all_at(behind, end - behind.len() as u64)
            .and_then(|()| file.write_all_at(&pair.end.bytes(), end))
            .map_err(io)?;
        self.step()?;
        file.sync_all().map_err(io)?;
        drop(file);
        check_xyz(&map(&tmp)?, &pair.header)?;
        self.rename(&tmp, path)
    }

    fn add_user(&self, name: &str, program: &Path) -> Result<(), Failure> {
        let path = self.user_path(name, program);
        if path.exists() {
            return Ok(());
        }
        make_folder(&self.folder.join("users").join(name))?;
        let tmp = self.temporary();
        let mut file = self.create(&tmp, 0o644)?;
        self.step()?;
        file.write_all(program.as_os_str().as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(Failure::io(&tmp))?;
        self.rename(&tmp, &path)
    }

    /// ABC takes the place of the program, with the ELF's owner, rights and extended attributes.
    pub(crate) fn put_program(
        &self,
        page: &[u8],
        rest: &[u8],
        elf: &Path,
        to: &Path,
    ) -> Result<(), Failure> {
        let like = fs::metadata(elf).map_err(Failure::io(elf))?;
        let attributes = Attributes::of(elf)?;
        let tmp = beside(to);
        let _ = fs::remove_file(&tmp);
        let mut file = self.create(&tmp, 0o600)?;
        let io = |e| Failure::io(&tmp)(e);
        self.step()?;
        file.write_all(page).map_err(io)?;
        self.step()?;
        file.write_all(rest).map_err(io)?;
        // The owner first: a change of it takes set-user-ID away.
        chown(&tmp, Some(like.uid()), Some(like.gid())).map_err(io)?;
        let kept = attributes.put(&file, to).and_then(|()| {
            file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o7777))
                .map_err(io)
        });
        if kept.is_err() {
            let _ = fs::remove_file(&tmp);
        }
        kept?;
        self.step()?;
        file.sync_all().map_err(io)?;
        self.rename(&tmp, to)
    }

    /// Takes a program away, or puts its ELF in its place, and its text if nobody else has it.
    ///
    /// # Errors
    ///
    /// All of [`Failure`].
    pub fn remove(&self, program: &Path, back_to_elf: bool) -> Result<(), Failure> {
        let program = absolute(program)?;
        let abc = map(&program)?;
        let header = check_abc(&abc)?;
        let name = self.name_in(&header).ok_or_else(|| {
            Failure::Usage(format!(
                "{}: its text is not in {}",
                program.display(),
                self.folder.display()
            ))
        })?;
        self.release(&program)?;
        if back_to_elf {
            let elf = restore(&abc, &map(&self.text_path(&name))?)?;
            let (head, rest) = elf.split_at(elf.len().min(4096));
            self.put_program(head, rest, &program, &program)?;
        } else {
            self.step()?;
            fs::remove_file(&program).map_err(Failure::io(&program))?;
            sync_folder(program.parent().unwrap_or_else(|| Path::new("/")))?;
        }
        self.drop_copy(&program)?;
        self.drop_user(&name, &program)
    }

    fn drop_user(&self, name: &str, program: &Path) -> Result<(), Failure> {
        let path = self.user_path(name, program);
        self.step()?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io(&path)(error)),
            _ => self.drop_text_if_unused(name).map(|_| ()),
        }
    }

    fn drop_text_if_unused(&self, name: &str) -> Result<bool, Failure> {
        let users = self.folder.join("users").join(name);
        self.step()?;
        if self.users(name)? != 0 {
            return Ok(false);
        }
        let _ = fs::remove_dir(&users);
        sync_folder(&self.folder.join("users"))?;
        self.step()?;
        let text = self.text_path(name);
        match fs::remove_file(&text) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io(&text)(error)),
            _ => sync_folder(&self.folder.join("text")).map(|()| true),
        }
    }

    /// How many programs have a text.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`].
    pub fn users(&self, name: &str) -> Result<usize, Failure> {
        Ok(list(&self.folder.join("users").join(name))?.len())
    }

    /// Names of all texts.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`].
    pub fn texts(&self) -> Result<Vec<String>, Failure> {
        list(&self.folder.join("text"))
    }

    /// All users of all texts.
    pub(crate) fn all_users(&self) -> Result<Vec<User>, Failure> {
        let mut users = Vec::new();
        let folder = self.folder.join("users");
        for text in list(&folder)? {
            for name in list(&folder.join(&text))? {
                let file = folder.join(&text).join(name);
                let program = fs::read(&file).map_err(Failure::io(&file))?;
                users.push(User {
                    text: text.clone(),
                    program: PathBuf::from(OsStr::from_bytes(&program)),
                    file,
                });
            }
        }
        Ok(users)
    }

    /// Takes away what cuts left over.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`].
    pub fn clean(&self) -> Result<Cleaned, Failure> {
        let mut cleaned = Cleaned::default();
        let tmp = self.folder.join("tmp");
        for name in list(&tmp)? {
            fs::remove_file(tmp.join(&name)).map_err(Failure::io(tmp.join(&name)))?;
            cleaned.unfinished += 1;
        }
        for user in self.all_users()? {
            if self.name_of_program(&user.program).as_ref() != Some(&user.text) {
                fs::remove_file(&user.file).map_err(Failure::io(&user.file))?;
                cleaned.users += 1;
            }
        }
        cleaned.copies = self.clean_copies()?;
        for text in self.texts()? {
            if self.drop_text_if_unused(&text)? {
                cleaned.texts += 1;
            }
        }
        Ok(cleaned)
    }

    /// The text of this store that a program has now.
    pub(crate) fn name_of_program(&self, program: &Path) -> Option<String> {
        let header = Header::parse(&map(program).ok()?).ok()?;
        self.name_in(&header)
    }

    fn temporary(&self) -> PathBuf {
        self.folder
            .join("tmp")
            .join(format!("new-{}", std::process::id()))
    }

    fn create(&self, path: &Path, mode: u32) -> Result<File, Failure> {
        self.step()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        let file = options.open(path).map_err(Failure::io(path))?;
        file.set_permissions(fs::Permissions::from_mode(mode))
            .map_err(Failure::io(path))?;
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        self.step()?;
        fs::rename(from, to).map_err(Failure::io(to))?;
        self.step()?;
        sync_folder(to.parent().unwrap_or_else(|| Path::new("/")))
    }
}

/// A name for what will take a program's place: in the same folder, for rename.
fn beside(program: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(program.file_name().unwrap_or_default());
    name.push(".off2f-new");
    program.with_file_name(name)
}

/// Names in a folder, in order; none where there is no such folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Failure::io(folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Failure::io(folder))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Allocates blocks for whole huge pages, one at a time: a request of 2 MiB gets an aligned piece
/// as long as there is one; a larger request gets any place.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    for piece in 0..bytes / HUGE_BYTES {
        let at = piece * HUGE_BYTES;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), at, HUGE_BYTES) {
            Ok(()) => (),
            // Not every file system can; then its texts are not mapped in huge pages.
            Err(rustix::io::Errno::OPNOTSUPP) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn lock_for_us(file: &File) -> io::Result<()> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).map_err(Into::into)
}
