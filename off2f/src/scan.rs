// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a tree of files converts, and what that would save.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{FileHeader64, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::error::{Failure, Refusal};
use crate::format::PAGE_BYTES;
use crate::plan::Plan;
use crate::store::map;

/// Linux's default read-ahead of a disk: the largest single read.
pub const READ_AHEAD_BYTES: u64 = 128 << 10;
/// The paper counts programs whose data is this share of the file, or more.
const MUCH_DATA_PERCENT: u64 = 10;

/// A program that converts.
#[derive(Debug, Clone)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Of the file.
    pub file_bytes: u64,
    /// Of its executable segments, in whole pages: what DRAM would not hold.
    pub text_bytes: u64,
    /// Of its writable segments in the file.
    pub data_bytes: u64,
    /// What a disk would not be asked to read.
    pub cut_bytes: u64,
    /// Whether ld.so starts it.
    pub dynamic: bool,
}

/// What was found in a tree.
#[derive(Debug, Default)]
pub struct Census {
    /// Those that convert.
    pub programs: Vec<Program>,
    /// How many ELFs do not, by reason.
    pub refused: BTreeMap<String, u32>,
    /// All else.
    pub no_elf: u32,
    /// What could not be read.
    pub unreadable: u32,
}

impl Program {
    fn of(path: &Path, elf: &[u8]) -> Result<Self, Refusal> {
        let plan = Plan::of(elf)?;
        let header = FileHeader64::<LE>::parse(elf).map_err(|_| Refusal::Damaged("ELF header"))?;
        let phdrs = header
            .program_headers(LE, elf)
            .map_err(|_| Refusal::Damaged("program headers outside the file"))?;
        let data = phdrs
            .iter()
            .filter(|p| p.p_type(LE) == PT_LOAD && p.p_flags(LE) & PF_W != 0)
            .map(|p| p.p_filesz(LE));
        Ok(Self {
            path: path.to_path_buf(),
            file_bytes: plan.source_bytes,
            text_bytes: plan.texts.iter().map(|text| text.bytes).sum(),
            data_bytes: data.fold(0, u64::saturating_add),
            cut_bytes: plan.texts.iter().map(|text| text.cut_bytes).sum(),
            dynamic: plan.dynamic,
        })
    }

    /// Reads of a disk that go with the text, at the kernel's read-ahead.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.cut_bytes.div_ceil(READ_AHEAD_BYTES)
    }
}

impl Census {
    /// Looks at each regular file below a folder once, whatever number of names it has.
    ///
    /// # Errors
    ///
    /// [`Failure::Io`] where the folder itself cannot be read.
    pub fn of(folder: &Path) -> Result<Self, Failure> {
        let mut census = Self::default();
        let mut seen = HashSet::new();
        let mut folders = vec![folder.to_path_buf()];
        fs::read_dir(folder).map_err(Failure::io(folder))?;
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                census.unreadable += 1;
                continue;
            };
            for entry in entries.flatten() {
                let Ok(about) = entry.metadata() else {
                    census.unreadable += 1;
                    continue;
                };
                if about.is_dir() {
                    folders.push(entry.path());
                } else if about.is_file() && seen.insert((about.dev(), about.ino())) {
                    census.look_at(&entry.path());
                }
            }
        }
        census.programs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(census)
    }

    fn look_at(&mut self, path: &Path) {
        let Ok(bytes) = map(path) else {
            self.unreadable += 1;
            return;
        };
        match Program::of(path, &bytes) {
            Ok(program) => self.programs.push(program),
            Err(Refusal::NoElf) => self.no_elf += 1,
            Err(why) => *self.refused.entry(why.to_string()).or_default() += 1,
        }
    }

    /// Of all that converts: a name, a value, its unit.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, f64, &'static str)> {
        let sum = |of: fn(&Program) -> u64| self.programs.iter().map(of).sum::<u64>();
        let elfs = self.programs.len() as u64 + u64::from(self.refused.values().sum::<u32>());
        let (text, data) = (sum(|p| p.text_bytes), sum(|p| p.data_bytes));
        let much = |p: &&Program| p.data_bytes * 100 >= p.file_bytes * MUCH_DATA_PERCENT;
        let much_data = self.programs.iter().filter(much).count() as u64;
        let percent = 100.0 * float(self.programs.len() as u64) / float(elfs.max(1));
        vec![
            ("elf_files", float(elfs), "files"),
            ("convert", float(self.programs.len() as u64), "files"),
            ("convert_percent", percent, "%"),
            ("dynamic", float(sum(|p| u64::from(p.dynamic))), "files"),
            ("file_bytes", float(sum(|p| p.file_bytes)), "bytes"),
            ("text_bytes", float(text), "bytes"),
            ("data_bytes", float(data), "bytes"),
            ("text_to_data", float(text) / float(data.max(1)), "ratio"),
            ("much_data", float(much_data), "files"),
            ("dram_saved_pages", float(text / PAGE_BYTES), "pages"),
            ("disk_bytes_saved", float(sum(|p| p.cut_bytes)), "bytes"),
            ("disk_reads_saved", float(sum(Program::reads)), "reads"),
            ("no_elf", float(u64::from(self.no_elf)), "files"),
            ("unreadable", float(u64::from(self.unreadable)), "files"),
        ]
    }

    /// For people: the figures, the reasons, the largest texts.
    #[must_use]
    pub fn table(&self, largest: usize) -> String {
        let mut out = String::new();
        for (name, value, unit) in self.figures() {
            let digits = if unit == "ratio" || unit == "%" { 1 } else { 0 };
            let _ = writeln!(out, "{name:20} {value:>16.digits$} {unit}");
        }
        for (why, count) in &self.refused {
            let _ = writeln!(out, "refused {count:>5}  {why}");
        }
        let mut programs: Vec<&Program> = self.programs.iter().collect();
        programs.sort_by_key(|p| std::cmp::Reverse(p.text_bytes));
        if largest != 0 {
            let _ = writeln!(out, "{:>12} {:>12} {:>12}  program", "text", "data", "file");
        }
        for p in programs.into_iter().take(largest) {
            let (text, data, file) = (p.text_bytes, p.data_bytes, p.file_bytes);
            let _ = writeln!(
                out,
                "{text:>12} {data:>12} {file:>12}  {}",
                p.path.display()
            );
        }
        out
    }

    /// Each program as a point: size of the file across, text's share of it upwards.
    #[must_use]
    pub fn picture(&self) -> String {
        const WIDTH: f64 = 720.0;
        const HEIGHT: f64 = 400.0;
        const MARGIN: f64 = 50.0;
        // Files are of 1 KiB to 1 GiB.
        let across = |bytes: u64| {
            let place = (float(bytes.max(1024)).log2() - 10.0) / 20.0;
            MARGIN + place.min(1.0) * (WIDTH - 2.0 * MARGIN)
        };
        let up = |share: f64| HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>Text's share of {} programs that \
             convert</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            self.programs.len()
        );
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = up(share);
            let _ = writeln!(
                svg,
                "<path d=\"M{MARGIN} {y}H{}\" stroke=\"#ddd\"/><text x=\"12\" y=\"{y}\">{:.0} %</text>",
                WIDTH - MARGIN,
                share * 100.0
            );
        }
        for (label, power) in [("1 KiB", 10), ("32 KiB", 15), ("1 MiB", 20), ("32 MiB", 25)] {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\">{label}</text>",
                across(1 << power),
                HEIGHT - MARGIN + 20.0
            );
        }
        for p in &self.programs {
            let share = (float(p.text_bytes) / float(p.file_bytes.max(1))).min(1.0);
            let colour = if p.dynamic { "#0b63ce" } else { "#c2410c" };
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\" fill-opacity=\"0.5\"/>",
                across(p.file_bytes),
                up(share)
            );
        }
        svg + "<text x=\"500\" y=\"24\">blue: dynamic, red: static; size of file, share of text</text>\n</svg>\n"
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sums of sizes of files are far below 2^53"
)]
fn float(value: u64) -> f64 {
    value as f64
}
