// SPDX-License-Identifier: GPL-2.0-or-later
//! A QEMU with the plugin and a bare-metal guest, for `bare_metal.rs` and `caches.rs`.
#![allow(dead_code, reason = "each program of tests uses a part")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait on a busy host before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

const RAM_BYTES: u64 = 16 << 20;
pub const COUNTERS: u64 = 0x20_0000;
pub const AP_COUNTERS: u64 = 0x3_0000;
const MODE: u64 = 0x20_0010;
/// Where a guest's code is.
const TEXT: u64 = 0x10_1000;

/// Offsets in the control file; a test in `control.rs` compares them with the header.
const JOBS_READY: u64 = 0;
const REQUEST: u64 = 32;
const COMMAND: u64 = 36;
const ARGUMENT: u64 = 40;
const DONE: u64 = 80;
const ERROR: u64 = 84;
pub const CUT: u64 = 88;
pub const NOW: u64 = 128;
pub const AT_CUT: u64 = 1184;
const MARKS: u64 = 2240;
pub const CACHE: u64 = 11752;
const MARK_BYTES: u64 = 1088;
const MAGIC: u64 = 0x4e47_554c_504d_4552;

pub const READ: u32 = 1;
pub const ARM_CUT: u32 = 3;
pub const ARM_CUT_AT: u32 = 4;
pub const ARM_HOLD_UP: u32 = 5;
pub const RESET_MARKS: u32 = 6;
pub const POWER_CUT: u32 = 7;
pub const HONOUR: u32 = 8;
pub const ARM_STORE: u32 = 9;
pub const WINDOW: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocking {
    Icount,
    Mttcg,
}

/// A snapshot of the control file.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub taken: u64,
    pub cpu: u64,
    pub halted_ns: u64,
    pub count: [u64; 2],
}

pub fn mark_first(mark: u64) -> u64 {
    MARKS + mark * MARK_BYTES + 32
}

fn run(command: &mut Command) -> String {
    let name = format!("{command:?}");
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The guest, built once for each test, and its symbols.
pub struct Guest {
    elf: PathBuf,
    symbols: String,
}

impl Guest {
    pub fn build() -> Self {
        Self::build_from("guest.S")
    }

    pub fn build_from(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(name);
        let elf = fresh_dir().join("guest.elf");
        run(Command::new("gcc")
            .args(["-m32", "-nostdlib", "-static", "-no-pie"])
            .args(["-Wl,--build-id=none", &format!("-Wl,-Ttext={TEXT:#x}")])
            .args(["-Wl,--section-start=.multiboot=0x100000"])
            .arg("-o")
            .arg(&elf)
            .arg(source));
        let symbols = run(Command::new("nm").arg(&elf));
        Self { elf, symbols }
    }

    pub fn address(&self, symbol: &str) -> u64 {
        let line = self
            .symbols
            .lines()
            .find(|line| line.split_whitespace().nth(2) == Some(symbol))
            .unwrap_or_else(|| panic!("the guest has no symbol {symbol}"));
        u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
    }

    /// So many bytes of code at a symbol, in hexadecimal.
    pub fn code(&self, symbol: &str, bytes: usize) -> String {
        let text = fresh_dir().join("text");
        run(Command::new("objcopy")
            .args(["-O", "binary", "-j", ".text"])
            .args([&self.elf, &text]));
        let at = usize::try_from(self.address(symbol) - TEXT).unwrap();
        let code = std::fs::read(text).unwrap();
        let digits = code[at..at + bytes].iter();
        digits.map(|byte| format!("{byte:02x}")).collect()
    }
}

fn fresh_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("rem-plugin-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Cargo puts the plugin two folders above the test program's.
fn plugin_path() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let name = "libremanence_plugin.so";
    let places: Vec<PathBuf> = program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join(name))
        .collect();
    let newest = places
        .iter()
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest
        .unwrap_or_else(|| panic!("none of {places:?}"))
        .clone()
}

/// One QEMU process, which starts stopped before its first instruction.
pub struct Machine {
    qemu: Child,
    monitor: BufReader<UnixStream>,
    ram: File,
    media: File,
    ctl: File,
    dir: PathBuf,
}

impl Machine {
    /// `mode` is the word that the guest reads; `plugin` has the plugin's
    /// arguments without `ctl=`, in which DIR is the machine's folder.
    pub fn start(guest: &Guest, clocking: Clocking, cpus: u32, mode: u32, plugin: &str) -> Self {
        let dir = fresh_dir();
        let file = |name: &str| open(&dir, name);
        let (ram, media, ctl) = (file("ram"), file("media"), file("ctl"));
        ram.set_len(RAM_BYTES).unwrap();
        media.set_len(RAM_BYTES).unwrap();
        ram.write_all_at(&mode.to_le_bytes(), MODE).unwrap();
        let mut qemu = command(&dir, guest, clocking, cpus, plugin)
            .spawn()
            .expect("qemu-system-x86_64 cannot be started");
        let monitor = connect(&mut qemu, &dir);
        let mut machine = Self {
            qemu,
            monitor,
            ram,
            media,
            ctl,
            dir,
        };
        machine.wait_until("the plugin is ready", |machine| {
            machine.ctl_u64(JOBS_READY) == MAGIC
        });
        machine
    }

    /// Output of a QEMU that refuses to start.
    pub fn refused(guest: &Guest, clocking: Clocking, cpus: u32, plugin: &str) -> String {
        let dir = fresh_dir();
        for name in ["ram", "media"] {
            open(&dir, name).set_len(RAM_BYTES).unwrap();
        }
        open(&dir, "ctl").set_len(12288).unwrap();
        let status = command(&dir, guest, clocking, cpus, plugin)
            .status()
            .unwrap();
        let output = std::fs::read_to_string(dir.join("stderr")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(status.code(), Some(1), "{status}: {output}");
        output
    }

    /// One QMP command without arguments.
    pub fn qmp(&mut self, command: &str) {
        writeln!(self.monitor.get_mut(), "{{\"execute\": \"{command}\"}}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.monitor.read_line(&mut line).unwrap(), 0, "QMP closed");
            assert!(!line.contains("\"error\""), "{command}: {line}");
            if line.contains("\"return\"") {
                return;
            }
        }
    }

    /// Continues to a cut that may come before QMP has answered.
    pub fn run_to_the_cut(&mut self) {
        writeln!(self.monitor.get_mut(), "{{\"execute\": \"cont\"}}").unwrap();
        self.wait_for_cut();
    }

    fn wait_until(&mut self, what: &str, done: impl Fn(&mut Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            assert!(
                begin.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}"
            );
            sleep(Duration::from_millis(1));
        }
    }

    /// The word on media at `address`.
    pub fn media_u32(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.media.read_exact_at(&mut bytes, address).unwrap();
        u32::from_le_bytes(bytes)
    }

    /// The word that the guest reads at `address`.
    pub fn coherent_u32(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.ram.read_exact_at(&mut bytes, address).unwrap();
        u32::from_le_bytes(bytes)
    }

    /// Changes memory as a device does: without an instruction.
    pub fn dma(&self, address: u64, word: u32) {
        self.ram.write_all_at(&word.to_le_bytes(), address).unwrap();
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.join(name)).unwrap()
    }

    pub fn ctl_u64(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.ctl
            .read_exact_at(&mut bytes, offset)
            .map_or(0, |()| u64::from_le_bytes(bytes))
    }

    pub fn ctl_u32(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.ctl.read_exact_at(&mut bytes, offset).unwrap();
        u32::from_le_bytes(bytes)
    }

    /// A command that ends the process, so there is no answer.
    pub fn last_command(&mut self, command: u32, first: u64) {
        let ctl = &self.ctl;
        ctl.write_all_at(&command.to_le_bytes(), COMMAND).unwrap();
        ctl.write_all_at(&first.to_le_bytes(), ARGUMENT).unwrap();
        let request = self.ctl_u32(REQUEST) + 1;
        ctl.write_all_at(&request.to_le_bytes(), REQUEST).unwrap();
        self.wait_for_cut();
    }

    /// A command for the plugin; its error, 0 for none.
    pub fn command(&mut self, command: u32, first: u64, second: u64) -> u32 {
        let ctl = &self.ctl;
        ctl.write_all_at(&command.to_le_bytes(), COMMAND).unwrap();
        ctl.write_all_at(&first.to_le_bytes(), ARGUMENT).unwrap();
        ctl.write_all_at(&second.to_le_bytes(), ARGUMENT + 8)
            .unwrap();
        let request = self.ctl_u32(REQUEST) + 1;
        ctl.write_all_at(&request.to_le_bytes(), REQUEST).unwrap();
        self.wait_until("the plugin answers", |machine| {
            machine.ctl_u32(DONE) == request
        });
        self.ctl_u32(ERROR)
    }

    pub fn snapshot(&self, offset: u64) -> Snapshot {
        Snapshot {
            taken: self.ctl_u64(offset),
            cpu: self.ctl_u64(offset + 8),
            halted_ns: self.ctl_u64(offset + 16),
            count: [self.ctl_u64(offset + 32), self.ctl_u64(offset + 40)],
        }
    }

    pub fn wait_for_mark(&mut self, mark: u64) -> Snapshot {
        self.wait_until("a mark is reached", |machine| {
            machine.ctl_u64(mark_first(mark)) == 1
        });
        self.snapshot(mark_first(mark))
    }

    /// Waits for SIGKILL; any other end fails the test.
    fn wait_for_cut(&mut self) {
        let begin = Instant::now();
        let status = loop {
            match self.qemu.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begin.elapsed() < PATIENCE, "not cut within {PATIENCE:?}"),
            }
            sleep(Duration::from_millis(1));
        };
        let mut output = String::new();
        File::open(self.dir.join("stderr"))
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        assert_eq!(status.signal(), Some(9), "{status}: {output}");
    }

    /// The guest's three words at `address`.
    pub fn counters(&mut self, address: u64) -> [u64; 3] {
        let mut bytes = [0; 12];
        self.ram.seek(SeekFrom::Start(address)).unwrap();
        self.ram.read_exact(&mut bytes).unwrap();
        [0, 4, 8].map(|at| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Most tests expect it to be dead already; either result will do.
        self.qemu.kill().ok();
        self.qemu.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn open(dir: &Path, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options.open(dir.join(name)).unwrap()
}

fn command(dir: &Path, guest: &Guest, clocking: Clocking, cpus: u32, plugin: &str) -> Command {
    let path = |name: &str| dir.join(name).display().to_string();
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-nodefaults", "-display", "none", "-S"])
        .args(["-cpu", "qemu64,+clflushopt,+clwb"])
        .args(["-machine", "q35,memory-backend=ram", "-m", "16M"])
        .args(["-smp", &cpus.to_string(), "-no-reboot"])
        .args(["-serial", "null", "-serial", "null"])
        .args(["-qmp", &format!("unix:{},server=on,wait=off", path("qmp"))])
        .arg("-object")
        .arg(format!(
            "memory-backend-file,id=ram,size=16M,share=on,mem-path={}",
            path("ram")
        ))
        .arg("-plugin")
        .arg(format!(
            "{},ctl={},{}",
            plugin_path().display(),
            path("ctl"),
            plugin.replace("DIR", &dir.display().to_string())
        ))
        .arg("-kernel")
        .arg(&guest.elf);
    match clocking {
        Clocking::Icount => command.args(["-accel", "tcg", "-icount", "shift=0,sleep=off"]),
        Clocking::Mttcg => command.args(["-accel", "tcg,thread=multi"]),
    };
    command.stdin(Stdio::null()).stderr(open(dir, "stderr"));
    command
}

fn connect(qemu: &mut Child, dir: &Path) -> BufReader<UnixStream> {
    let begin = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(dir.join("qmp")) {
            let mut monitor = BufReader::new(stream);
            let mut greeting = String::new();
            monitor.read_line(&mut greeting).unwrap();
            writeln!(monitor.get_mut(), "{{\"execute\": \"qmp_capabilities\"}}").unwrap();
            monitor.read_line(&mut greeting).unwrap();
            return monitor;
        }
        let ended = qemu.try_wait().unwrap();
        let output = std::fs::read_to_string(dir.join("stderr")).unwrap();
        assert!(ended.is_none(), "QEMU ended at once: {output}");
        assert!(
            begin.elapsed() < PATIENCE,
            "no QMP within {PATIENCE:?}: {output}"
        );
        sleep(Duration::from_millis(1));
    }
}
