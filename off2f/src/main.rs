// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program `off2f`; see `off2f(1)`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use off2f::format::Header;
use off2f::scan::Census;
use off2f::store::{Store, hex, map};
use off2f::{Failure, check_abc, check_xyz, convert, restore};
use serde_json::{Value, json};

/// Programs of two files: ABC on disk, and XYZ, the text, in NVRAM, where it runs.
#[derive(Parser)]
#[command(name = "off2f", version)]
struct Words {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Make ABC and XYZ of an ELF program.
    Convert {
        elf: PathBuf,
        /// Where ABC is written; ELF.abc if not given.
        #[arg(long)]
        abc: Option<PathBuf>,
        /// Where XYZ is written; ELF.xyz if not given.
        #[arg(long)]
        xyz: Option<PathBuf>,
        /// Where XYZ will be when the program is started; where it is written if not given.
        #[arg(long)]
        path: Option<String>,
    },
    /// Rebuild the ELF, byte for byte.
    Restore {
        abc: PathBuf,
        /// Where the ELF is written.
        elf: PathBuf,
        /// Where XYZ is, if not where ABC says.
        #[arg(long)]
        xyz: Option<PathBuf>,
    },
    /// Describe an ABC.
    Info {
        abc: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Check each byte of ABCs and of their XYZs.
    Verify {
        #[arg(required = true)]
        abc: Vec<PathBuf>,
        /// Where XYZ is, if not where ABC says.
        #[arg(long)]
        xyz: Option<PathBuf>,
    },
    /// Convert a program, its text into the store and its ABC in the program's place.
    Install {
        #[arg(required = true)]
        elf: Vec<PathBuf>,
        /// The folder of texts, on a file system in NVRAM.
        #[arg(long)]
        store: PathBuf,
        /// Where ABC goes, if not in the ELF's place.
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Remove a program, and its text if no other program uses it.
    Remove {
        #[arg(required = true)]
        program: Vec<PathBuf>,
        #[arg(long)]
        store: PathBuf,
        /// Put the ELF in its place.
        #[arg(long)]
        restore: bool,
    },
    /// Mount copies of ABCs in the store over programs, which then start without the disk.
    Bind {
        /// All of the store if none is given.
        program: Vec<PathBuf>,
        #[arg(long)]
        store: PathBuf,
    },
    /// Unmount these copies, for example before programs are upgraded.
    Unbind {
        /// All of the store if none is given.
        program: Vec<PathBuf>,
        #[arg(long)]
        store: PathBuf,
    },
    /// Remove what interrupted commands left in a store.
    Clean {
        #[arg(long)]
        store: PathBuf,
    },
    /// How much of a tree converts, and what that saves.
    Scan {
        folder: PathBuf,
        /// How many of the largest texts are listed.
        #[arg(long, default_value_t = 10)]
        largest: usize,
        /// Where a picture (SVG) is written.
        #[arg(long)]
        picture: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    match carry_out(Words::parse().order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "off2f: {error}");
            match error {
                Failure::Usage(_) => ExitCode::from(2),
                Failure::Io { .. } | Failure::Attribute { .. } => ExitCode::from(4),
                _ => ExitCode::from(1),
            }
        }
    }
}

fn carry_out(order: Order) -> Result<(), Failure> {
    match order {
        Order::Convert {
            elf,
            abc,
            xyz,
            path,
        } => make(&elf, abc, xyz, path),
        Order::Restore { abc, elf, xyz } => {
            let bytes = map(&abc).map_err(of(&abc))?;
            let header = check_abc(&bytes).map_err(of(&abc))?;
            let xyz = xyz.unwrap_or_else(|| path_of(&header));
            let made = restore(&bytes, &map(&xyz)?).map_err(of(&abc))?;
            write(&elf, &[&made], &abc)
        }
        Order::Info { abc, json } => info(&abc, json),
        Order::Verify { abc, xyz } => abc.iter().try_for_each(|abc| verify(abc, xyz.as_deref())),
        Order::Install { elf, store, to } => install(&elf, &store, to.as_deref()),
        Order::Remove {
            program,
            store,
            restore,
        } => {
            let store = Store::open(&store)?;
            program
                .iter()
                .try_for_each(|program| store.remove(program, restore).map_err(of(program)))
        }
        Order::Bind { program, store } => {
            let mounted = Store::open(&store)?.bind(&program)?;
            say(&format!("{mounted} programs start without the disk"));
            Ok(())
        }
        Order::Unbind { program, store } => {
            let unmounted = Store::open(&store)?.unbind(&program)?;
            say(&format!("{unmounted} programs start from the disk again"));
            Ok(())
        }
        Order::Clean { store } => {
            let cleaned = Store::open(&store)?.clean()?;
            say(&format!(
                "{} texts, {} users, {} unfinished files, {} copies",
                cleaned.texts, cleaned.users, cleaned.unfinished, cleaned.copies
            ));
            Ok(())
        }
        Order::Scan {
            folder,
            largest,
            picture,
            json,
        } => scan(&folder, largest, picture.as_deref(), json),
    }
}

fn say(text: &str) {
    // A reader that has gone does not want it.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Errors that do not say which file get its name.
fn of(path: &Path) -> impl Fn(Failure) -> Failure {
    let path = path.display().to_string();
    move |error| match error {
        Failure::Refused(why) => Failure::Bad {
            what: "ELF",
            why: format!("{path} is not converted: {why}"),
        },
        Failure::Bad { what, why } => Failure::Bad {
            what,
            why: format!("{path}: {why}"),
        },
        Failure::Digest { what, part } => Failure::Bad {
            what,
            why: format!("{path}: {}", Failure::Digest { what, part }),
        },
        other => other,
    }
}

fn path_of(header: &Header) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&header.path).into_owned())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes a file with the mode of another one.
fn write(path: &Path, parts: &[&[u8]], like: &Path) -> Result<(), Failure> {
    let io = |source| Failure::Io {
        path: path.to_path_buf(),
        source,
    };
    let mode = fs::metadata(like).map_err(io)?.permissions().mode() & 0o777;
    let mut file = fs::File::create(path).map_err(io)?;
    for part in parts {
        file.write_all(part).map_err(io)?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
        .map_err(io)
}

fn make(
    elf: &Path,
    abc: Option<PathBuf>,
    xyz: Option<PathBuf>,
    path: Option<String>,
) -> Result<(), Failure> {
    let abc = abc.unwrap_or_else(|| with_suffix(elf, ".abc"));
    let xyz = xyz.unwrap_or_else(|| with_suffix(elf, ".xyz"));
    let path = match path {
        Some(path) => path,
        None => std::path::absolute(&xyz)
            .ok()
            .and_then(|path| path.to_str().map(str::to_owned))
            .ok_or_else(|| Failure::Usage(format!("{}: not UTF-8", xyz.display())))?,
    };
    let bytes = map(elf)?;
    let pair = convert(&bytes, &path).map_err(of(elf))?;
    let mut parts: Vec<&[u8]> = Vec::new();
    let (zeros, end) = (vec![0; 1 << 21], pair.end.bytes());
    parts.push(&pair.names.head);
    let mut at = pair.names.head.len() as u64;
    for (text, bytes) in &pair.texts {
        parts.extend(pad(&zeros, text.xyz_offset - at));
        parts.push(bytes);
        parts.extend(pad(&zeros, text.bytes - bytes.len() as u64));
        at = text.xyz_offset + text.bytes;
    }
    parts.push(&pair.names.behind);
    parts.push(&end);
    write(&xyz, &parts, elf)?;
    write(&abc, &[&pair.abc], elf)
}

/// Less than a huge page of zeros.
fn pad(zeros: &[u8], bytes: u64) -> Option<&[u8]> {
    zeros.get(..usize::try_from(bytes).ok()?)
}

fn info(abc: &Path, as_json: bool) -> Result<(), Failure> {
    let bytes = map(abc)?;
    let header = check_abc(&bytes).map_err(of(abc))?;
    let texts: Vec<Value> = header
        .texts
        .iter()
        .map(|t| {
            json!({"vaddr": t.vaddr, "bytes": t.bytes, "xyz_offset": t.xyz_offset,
                   "source_offset": t.source_offset, "cut_bytes": t.cut_bytes})
        })
        .collect();
    let all = json!({
        "xyz": String::from_utf8_lossy(&header.path),
        "abc_bytes": header.abc_bytes,
        "xyz_bytes": header.xyz_bytes,
        "source_bytes": header.source_bytes,
        "text_sha256": hex(&header.text_sha256),
        "build_id": hex(&header.build_id),
        "texts": texts,
    });
    if as_json {
        say(&all.to_string());
    } else if let Some(fields) = all.as_object() {
        for (name, value) in fields {
            say(&format!("{name:14} {value}"));
        }
    }
    Ok(())
}

fn verify(abc: &Path, xyz: Option<&Path>) -> Result<(), Failure> {
    let header = check_abc(&map(abc)?).map_err(of(abc))?;
    let xyz = xyz.map_or_else(|| path_of(&header), Path::to_path_buf);
    check_xyz(&map(&xyz)?, &header).map_err(of(&xyz))?;
    say(&format!(
        "{}: whole, text in {}",
        abc.display(),
        xyz.display()
    ));
    Ok(())
}

/// All that convert are installed; the first that does not decides how it ends.
fn install(elfs: &[PathBuf], store: &Path, to: Option<&Path>) -> Result<(), Failure> {
    if to.is_some() && elfs.len() != 1 {
        return Err(Failure::Usage("--to is for one program".into()));
    }
    let store = Store::open(store)?;
    let mut first = Ok(());
    for elf in elfs {
        match store.install(elf, to.unwrap_or(elf)) {
            Ok(header) => say(&format!(
                "{}: text in {}",
                elf.display(),
                path_of(&header).display()
            )),
            Err(error) if elfs.len() == 1 => return Err(of(elf)(error)),
            Err(error) => {
                let error = of(elf)(error);
                let _ = writeln!(io::stderr(), "off2f: {error}");
                first = first.and(Err(error));
            }
        }
    }
    first
}

fn scan(folder: &Path, largest: usize, picture: Option<&Path>, json: bool) -> Result<(), Failure> {
    let census = Census::of(folder)?;
    let table = census.table(largest);
    if let Some(path) = picture {
        fs::write(path, census.picture()).map_err(|source| Failure::Io {
            path: path.to_path_buf(),
            source,
        })?;
    }
    if !json {
        say(table.trim_end());
        return Ok(());
    }
    let _ = io::stderr().write_all(table.as_bytes());
    let figures: serde_json::Map<String, Value> = census
        .figures()
        .into_iter()
        .map(|(name, value, unit)| {
            (
                name.to_owned(),
                json!({"value": value, "unit": unit, "kind": "counted"}),
            )
        })
        .collect();
    say(&json!({"name": "off2f-scan", "ok": true, "figures": figures}).to_string());
    Ok(())
}
