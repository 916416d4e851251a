// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For build scripts: a copy of a crate's sources with all patches of a series.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs, io};

/// What is wrong with a series or its sources.
#[derive(Debug)]
pub enum SeriesError {
    /// A file or folder could not be read or written.
    File(PathBuf, io::Error),
    /// A patch does not apply: what `patch` printed.
    Patch(PathBuf, String),
    /// A patch has no line `Violates: PROMISE: VERDICT`, or one of another form.
    Head(PathBuf),
    /// The library begins with an attribute of more than one line.
    Attribute(PathBuf, String),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, err) => write!(f, "{}: {err}", path.display()),
            Self::Patch(path, what) => write!(f, "{} does not apply: {what}", path.display()),
            Self::Head(path) => {
                write!(
                    f,
                    "{}: want lines `Violates: PROMISE: VERDICT`",
                    path.display()
                )
            }
            Self::Attribute(path, line) => {
                write!(
                    f,
                    "{}: write this attribute in one line: {line}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for SeriesError {}

/// A head of a patch: its name, and what it violates.
struct Head {
    name: String,
    violates: Vec<(String, String)>,
}

/// Builds the library of the crate in the folder above the build script's: `src/lib.rs` includes
/// `OUT_DIR/patched.rs`, which is that crate's library with the patches of this folder, and
/// `MUTANTS`. `root` is the way from here to the top of the repository, which paths in patches begin
/// at.
///
/// # Panics
/// If a patch does not apply: a build script has no other way to end.
pub fn build(root: &str) {
    let var = |name: &str| {
        PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("{name}: not in a build script")))
    };
    let (here, out) = (var("CARGO_MANIFEST_DIR"), var("OUT_DIR"));
    if let Err(error) = build_in(&here, &here.join(root), &out) {
        panic!("{error}");
    }
}

fn build_in(here: &Path, root: &Path, out: &Path) -> Result<(), SeriesError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |err| SeriesError::File(path, err)
    };
    let root = root.canonicalize().map_err(failed(root))?;
    let series = here.canonicalize().map_err(failed(here))?;
    let bare = series.join("..");
    let bare = bare.canonicalize().map_err(failed(&bare))?;
    println!("cargo::rerun-if-changed={}", series.display());
    let copy = out.join("copy");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(failed(&copy))?;
    }
    let inside = bare.strip_prefix(&root).unwrap_or(&bare);
    for folder in folders(&bare)? {
        println!("cargo::rerun-if-changed={}", folder.display());
        let name = folder.file_name().unwrap_or_default();
        copy_folder(&folder, &copy.join(inside).join(name))?;
    }
    let mut heads = Vec::new();
    for patch in patches(&series)? {
        apply(&patch, &copy)?;
        if patch.file_stem().is_some_and(|stem| stem != "switch") {
            heads.push(head(&patch)?);
        }
    }
    let library = copy.join(inside).join("src/lib.rs");
    strip(&library)?;
    let text = format!("include!({library:?});\n{}", table(&heads));
    let made = out.join("patched.rs");
    fs::write(&made, text).map_err(failed(&made))
}

/// Folders of a crate that are a part of its library: not its tests, and no other crate.
fn folders(bare: &Path) -> Result<Vec<PathBuf>, SeriesError> {
    let failed = |err| SeriesError::File(bare.to_owned(), err);
    let mut found = Vec::new();
    for entry in fs::read_dir(bare).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.join("Cargo.toml").exists() && !path.ends_with("tests") {
            found.push(path);
        }
    }
    Ok(found)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), SeriesError> {
    let failed = |err| SeriesError::File(from.to_owned(), err);
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target).map_err(failed)?;
        }
    }
    Ok(())
}

/// The switch first, then by name.
fn patches(series: &Path) -> Result<Vec<PathBuf>, SeriesError> {
    let failed = |err| SeriesError::File(series.to_owned(), err);
    let mut found = Vec::new();
    for entry in fs::read_dir(series).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "patch")
        {
            found.push(path);
        }
    }
    found.sort_by_key(|path| (!path.ends_with("switch.patch"), path.clone()));
    Ok(found)
}

/// Without fuzz: a bug that lands in another place would be another bug.
fn apply(patch: &Path, copy: &Path) -> Result<(), SeriesError> {
    let done = Command::new("patch")
        .args([
            "-p1",
            "-s",
            "-N",
            "-F0",
            "--no-backup-if-mismatch",
            "-r",
            "-",
            "-i",
        ])
        .arg(patch)
        .current_dir(copy)
        .output()
        .map_err(|err| SeriesError::File("patch".into(), err))?;
    if done.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&done.stdout)
        .trim()
        .replace('\n', "; ");
    Err(SeriesError::Patch(patch.to_owned(), printed))
}

fn head(patch: &Path) -> Result<Head, SeriesError> {
    let text = fs::read_to_string(patch).map_err(|err| SeriesError::File(patch.to_owned(), err))?;
    let head = text.split("\n\n").next().unwrap_or_default();
    let mut violates = Vec::new();
    for line in head
        .lines()
        .filter_map(|line| line.strip_prefix("Violates: "))
    {
        let (promise, verdict) = line
            .split_once(": ")
            .ok_or_else(|| SeriesError::Head(patch.to_owned()))?;
        violates.push((promise.to_owned(), verdict.trim().to_owned()));
    }
    if violates.is_empty() {
        return Err(SeriesError::Head(patch.to_owned()));
    }
    let name = patch.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Head {
        name: name.into_owned(),
        violates,
    })
}

/// A file that is included must not begin with attributes of the whole crate: they are those of the
/// crate that includes it.
fn strip(library: &Path) -> Result<(), SeriesError> {
    let failed = |err| SeriesError::File(library.to_owned(), err);
    let text = fs::read_to_string(library).map_err(failed)?;
    let mut kept = String::new();
    for line in text.lines() {
        if line.starts_with("#![") && !line.trim_end().ends_with(']') {
            return Err(SeriesError::Attribute(library.to_owned(), line.to_owned()));
        }
        if !line.starts_with("//!") && !line.starts_with("#![") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    fs::write(library, kept).map_err(failed)
}

fn table(heads: &[Head]) -> String {
    let mut text = String::from(
        "/// The bugs that are planted here.\n\
         pub const MUTANTS: &[remanence_planted::Mutant] = &[\n",
    );
    for head in heads {
        text += &format!(
            "remanence_planted::Mutant {{ name: {:?}, violates: &{:?} }},\n",
            head.name, head.violates
        );
    }
    text + "];\n"
}
