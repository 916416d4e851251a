// SPDX-License-Identifier: GPL-2.0-or-later
//! The plugin's arguments: text in, a checked plan out.

use crate::control::MARKS_MAX;
use std::fmt;

/// A shorter turn would cost more than the instructions executed in it.
const QUANTUM_MIN: u64 = 100;
/// QEMU ends a turn by itself after this many; a longer quantum has no effect.
const QUANTUM_MAX: u64 = 1_000_000;
/// So many bytes of code are nowhere else.
const BEGIN_BYTES_MIN: usize = 32;

/// A place in the guest's execution to be reported when it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// About to execute at this virtual address.
    Pc(u64),
    /// About to execute at this virtual address, where the machine reports that it has stopped.
    Stopped(u64),
    /// About to execute `OUT DX, AL` with this port and byte: that report where there are ports.
    Out { port: u16, byte: u8 },
    /// About to execute the first instruction of a block at CPL 3.
    User,
}

/// What the plugin does in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) ctl_path: String,
    pub(crate) count: bool,
    pub(crate) cut: bool,
    /// Instructions after which a vCPU's turn ends; 0: QEMU's own limit.
    pub(crate) quantum: u64,
    pub(crate) marks: Vec<Mark>,
    /// What the memory has at the first instruction behind firmware, of which nothing is modelled.
    pub(crate) begin: Option<Vec<u8>>,
    pub(crate) cache: Option<CachePlan>,
}

/// Volatile caches between the vCPUs and NVRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachePlan {
    /// Name of the profile.
    pub(crate) profile: String,
    /// The file that is the guest's NVRAM.
    pub(crate) memory: String,
    pub(crate) media: String,
    /// Physical address of what is not left out of NVRAM.
    pub(crate) base: Option<u64>,
    /// Size of what is left out at the beginning of the files: it is firmware's, and is lost.
    pub(crate) skip_bytes: u64,
    /// Folder of the recording.
    pub(crate) record: Option<String>,
    /// File of the trace.
    pub(crate) trace: Option<String>,
    /// File of the last writer of each line.
    pub(crate) writers: Option<String>,
    /// File of how many lines were left before and after each flush of all.
    pub(crate) flushes: Option<String>,
    /// Write logs of disks, in order; their sizes are recorded.
    pub(crate) disk_logs: Vec<String>,
    /// The console's log; its size is recorded likewise.
    pub(crate) console: Option<String>,
    /// Name of the memory controller; guest time follows it.
    pub(crate) controller: Option<String>,
    /// Size of volatile memory from address 0 on that is behind the caches, too, and the name of its
    /// controller.
    pub(crate) dram_bytes: u64,
    pub(crate) dram_controller: Option<String>,
    /// Loads are modelled always, not only while something is armed.
    pub(crate) loads: bool,
}

/// Why arguments were refused; the text names the argument and its valid values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgsError {
    NoControlFile,
    Unknown(String),
    NotSwitch(String),
    NotQuantum(String),
    NotAddress(String),
    NotPortByte(String),
    NotBytes(String),
    TooManyMarks,
    /// An argument that caches need is missing, or an argument needs caches.
    CacheNeeds(&'static str),
    DramNeeds,
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoControlFile => write!(f, "no control file: pass ctl=FILE"),
            Self::Unknown(arg) => {
                write!(
                    f,
                    "{arg}: unknown; known are ctl=, count=, cut=, quantum=, pc=, out=, \
                     user=, begin=, cache=, memory=, media=, base=, record=, trace=, writers=, \
                     flushes=, disklog=, console=, controller=, dram=, dramcontroller=, loads=, skip=, stopped="
                )
            }
            Self::NotSwitch(arg) => write!(f, "{arg}: must be on or off"),
            Self::NotQuantum(arg) => write!(
                f,
                "{arg}: must be from {QUANTUM_MIN} to {QUANTUM_MAX} instructions"
            ),
            Self::NotAddress(arg) => write!(f, "{arg}: must be an address, as 0x100000"),
            Self::NotPortByte(arg) => {
                write!(f, "{arg}: must be out=PORT:BYTE, as in out=0x2f8:0x7e")
            }
            Self::NotBytes(arg) => {
                write!(
                    f,
                    "{arg}: must be {BEGIN_BYTES_MIN} bytes or more, as 4989d0..."
                )
            }
            Self::CacheNeeds(what) => {
                write!(
                    f,
                    "cache=, memory=, media= and base= go together, and disklog= and console= with record=: \
                     {what} is missing"
                )
            }
            Self::DramNeeds => write!(
                f,
                "dram=BYTES and dramcontroller= go together, and with controller="
            ),
            Self::TooManyMarks => write!(
                f,
                "more than {MARKS_MAX} marks (pc=, stopped=, out=, user=)"
            ),
        }
    }
}

impl std::error::Error for ArgsError {}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_address(arg: &str, value: &str) -> Result<u64, ArgsError> {
    parse_number(value).ok_or_else(|| ArgsError::NotAddress(arg.to_owned()))
}

fn parse_switch(arg: &str, value: &str) -> Result<bool, ArgsError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ArgsError::NotSwitch(arg.to_owned())),
    }
}

fn parse_quantum(arg: &str, value: &str) -> Result<u64, ArgsError> {
    parse_number(value)
        .filter(|insns| (QUANTUM_MIN..=QUANTUM_MAX).contains(insns))
        .ok_or_else(|| ArgsError::NotQuantum(arg.to_owned()))
}

fn parse_out(arg: &str, value: &str) -> Result<Mark, ArgsError> {
    let refused = || ArgsError::NotPortByte(arg.to_owned());
    let (port, byte) = value.split_once(':').ok_or_else(refused)?;
    let port = parse_number(port).and_then(|n| u16::try_from(n).ok());
    let byte = parse_number(byte).and_then(|n| u8::try_from(n).ok());
    match (port, byte) {
        (Some(port), Some(byte)) => Ok(Mark::Out { port, byte }),
        _ => Err(refused()),
    }
}

fn parse_bytes(arg: &str, value: &str) -> Result<Vec<u8>, ArgsError> {
    let bytes = value.as_bytes().chunks(2).map(|digits| {
        let [high, low] = *digits else { return None };
        let value = |digit: u8| char::from(digit).to_digit(16);
        u8::try_from(value(high)? * 16 + value(low)?).ok()
    });
    bytes
        .collect::<Option<Vec<u8>>>()
        .filter(|bytes| bytes.len() >= BEGIN_BYTES_MIN)
        .ok_or_else(|| ArgsError::NotBytes(arg.to_owned()))
}

fn check_cache(cache: CachePlan) -> Result<Option<CachePlan>, ArgsError> {
    if cache == CachePlan::default() {
        return Ok(None);
    }
    let words = [
        ("cache=", &cache.profile),
        ("memory=", &cache.memory),
        ("media=", &cache.media),
    ];
    if let Some((name, _)) = words.iter().find(|(_, value)| value.is_empty()) {
        return Err(ArgsError::CacheNeeds(name));
    }
    if cache.base.is_none() {
        return Err(ArgsError::CacheNeeds("base="));
    }
    if (cache.dram_bytes > 0) != cache.dram_controller.is_some()
        || (cache.dram_bytes > 0 && cache.controller.is_none())
    {
        return Err(ArgsError::DramNeeds);
    }
    if cache.record.is_none() && (cache.console.is_some() || !cache.disk_logs.is_empty()) {
        return Err(ArgsError::CacheNeeds("record="));
    }
    Ok(Some(cache))
}

/// Checks `args`, each of the form `key=value` as QEMU hands them over.
pub(crate) fn parse<'a>(args: impl Iterator<Item = &'a str>) -> Result<Plan, ArgsError> {
    let mut plan = Plan::default();
    let mut cache = CachePlan::default();
    for arg in args {
        let (key, value) = arg.split_once('=').unwrap_or((arg, ""));
        match key {
            "ctl" => value.clone_into(&mut plan.ctl_path),
            "count" => plan.count = parse_switch(arg, value)?,
            "cut" => plan.cut = parse_switch(arg, value)?,
            "quantum" => plan.quantum = parse_quantum(arg, value)?,
            "cache" => value.clone_into(&mut cache.profile),
            "memory" => value.clone_into(&mut cache.memory),
            "media" => value.clone_into(&mut cache.media),
            "record" => cache.record = Some(value.to_owned()),
            "trace" => cache.trace = Some(value.to_owned()),
            "writers" => cache.writers = Some(value.to_owned()),
            "flushes" => cache.flushes = Some(value.to_owned()),
            "disklog" => cache.disk_logs.push(value.to_owned()),
            "console" => cache.console = Some(value.to_owned()),
            "controller" => cache.controller = Some(value.to_owned()),
            "dram" => cache.dram_bytes = parse_address(arg, value)?,
            "dramcontroller" => cache.dram_controller = Some(value.to_owned()),
            "loads" => cache.loads = parse_switch(arg, value)?,
            "base" => cache.base = Some(parse_address(arg, value)?),
            "skip" => cache.skip_bytes = parse_address(arg, value)?,
            "pc" => {
                let address = parse_address(arg, value)?;
                plan.marks.push(Mark::Pc(address));
            }
            "stopped" => {
                let address = parse_address(arg, value)?;
                plan.marks.push(Mark::Stopped(address));
            }
            "out" => plan.marks.push(parse_out(arg, value)?),
            "begin" => plan.begin = Some(parse_bytes(arg, value)?),
            "user" => {
                if parse_switch(arg, value)? {
                    plan.marks.push(Mark::User);
                }
            }
            _ => return Err(ArgsError::Unknown(arg.to_owned())),
        }
    }
    if plan.ctl_path.is_empty() {
        return Err(ArgsError::NoControlFile);
    }
    if plan.marks.len() > MARKS_MAX {
        return Err(ArgsError::TooManyMarks);
    }
    plan.cache = check_cache(cache)?;
    // Caches need the counts for their clocks, and a cut that is exact.
    plan.cut |= plan.cache.is_some();
    // A vCPU's turn ends when its fuse has burnt.
    plan.cut |= plan.quantum > 0;
    // Fuses and marks refer to counts.
    plan.count |= plan.cut || !plan.marks.is_empty();
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &str) -> Result<Plan, ArgsError> {
        parse(words.split_whitespace())
    }

    #[test]
    fn marks_keep_the_order_of_the_arguments() {
        let plan = parse_words("ctl=/tmp/c pc=0x100000 user=on out=0x2f8:0x7e pc=16").unwrap();
        let out = Mark::Out {
            port: 0x2f8,
            byte: 0x7e,
        };
        assert_eq!(
            plan.marks,
            [Mark::Pc(0x10_0000), Mark::User, out, Mark::Pc(16)]
        );
        assert!(plan.count && !plan.cut);
    }

    #[test]
    fn defaults_are_off() {
        let plan = parse_words("ctl=/tmp/c").unwrap();
        assert!(!plan.count && !plan.cut && plan.marks.is_empty());
        let plan = parse_words("ctl=/tmp/c count=off cut=off user=off").unwrap();
        assert!(!plan.count && !plan.cut && plan.marks.is_empty());
    }

    #[test]
    fn cut_implies_count() {
        assert!(parse_words("ctl=/tmp/c cut=on").unwrap().count);
    }

    #[test]
    fn quantum_implies_cut_and_has_bounds() {
        let plan = parse_words("ctl=c quantum=2000").unwrap();
        assert!(plan.cut && plan.count && plan.quantum == 2000);
        for bad in ["99", "1000001", "0", "x", ""] {
            let arg = format!("quantum={bad}");
            let refused = parse_words(&format!("ctl=c {arg}"));
            assert_eq!(refused, Err(ArgsError::NotQuantum(arg)));
        }
        let quantum = |words| parse_words(words).unwrap().quantum;
        assert_eq!(quantum("ctl=c quantum=100"), 100);
        assert_eq!(quantum("ctl=c quantum=1000000"), 1_000_000);
    }

    #[test]
    fn code_behind_firmware_is_long_enough_to_be_found() {
        let code = "0fA5".repeat(16);
        let begin = |hex: &str| parse_words(&format!("ctl=c begin={hex}"));
        let bytes = [0x0f, 0xa5].repeat(16);
        assert_eq!(begin(&code).unwrap().begin, Some(bytes));
        let odd = format!("{code}0");
        let no_hex = format!("{code}+f");
        for bad in ["", &code[2..], odd.as_str(), no_hex.as_str()] {
            let refused = ArgsError::NotBytes(format!("begin={bad}"));
            assert_eq!(begin(bad), Err(refused));
        }
    }

    #[test]
    fn each_bad_argument_is_named() {
        let bad = |words: &str| parse_words(words).unwrap_err().to_string();
        assert!(bad("count=on").contains("ctl=FILE"));
        assert!(bad("ctl=c count=yes").starts_with("count=yes:"));
        assert!(bad("ctl=c speed=on").starts_with("speed=on:"));
        assert!(bad("ctl=c pc=main").starts_with("pc=main:"));
        assert!(bad("ctl=c out=0x2f8").starts_with("out=0x2f8:"));
        assert!(bad("ctl=c out=0x10000:1").starts_with("out=0x10000:1:"));
        assert!(bad("ctl=c out=1:0x100").starts_with("out=1:0x100:"));
    }

    #[test]
    fn caches_need_their_files_and_their_place() {
        let whole = "ctl=c cache=lightpc memory=a media=b base=0x100000000";
        let plan = parse_words(whole).unwrap();
        assert!(plan.cut && plan.count);
        let cache = plan.cache.unwrap();
        assert_eq!(
            (cache.profile.as_str(), cache.base),
            ("lightpc", Some(1 << 32))
        );
        for missing in ["cache=lightpc", "memory=a", "media=b", "base=0x100000000"] {
            let refused = parse_words(&whole.replace(missing, "")).unwrap_err();
            let name = missing.split_inclusive('=').next().unwrap();
            assert!(refused.to_string().contains(&format!("{name} is missing")));
        }
        assert_eq!(
            parse_words("ctl=c record=x"),
            Err(ArgsError::CacheNeeds("cache="))
        );
        assert_eq!(
            parse_words("ctl=c trace=x"),
            Err(ArgsError::CacheNeeds("cache="))
        );
        let words = format!("{whole} disklog=d disklog=e");
        assert_eq!(parse_words(&words), Err(ArgsError::CacheNeeds("record=")));
        let plan = parse_words(&format!("{words} record=r console=s")).unwrap();
        assert_eq!(plan.cache.unwrap().disk_logs, ["d", "e"]);
    }

    #[test]
    fn dram_needs_both_controllers() {
        let whole = "ctl=c cache=lightpc memory=a media=b base=0x100000000";
        for some in [
            "dram=0x1000",
            "dramcontroller=dram",
            "dram=0x1000 dramcontroller=dram",
        ] {
            let words = format!("{whole} {some}");
            assert_eq!(parse_words(&words), Err(ArgsError::DramNeeds));
        }
        let words = format!("{whole} controller=optane dram=0x1000 dramcontroller=dram");
        assert_eq!(parse_words(&words).unwrap().cache.unwrap().dram_bytes, 4096);
    }

    #[test]
    fn marks_are_limited_by_the_control_file() {
        let words = |n: usize| format!("ctl=c {}", "pc=1 ".repeat(n));
        assert_eq!(
            parse_words(&words(MARKS_MAX)).unwrap().marks.len(),
            MARKS_MAX
        );
        assert_eq!(
            parse_words(&words(MARKS_MAX + 1)),
            Err(ArgsError::TooManyMarks)
        );
    }
}
