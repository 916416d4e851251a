// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The alarm of the machine's clock, by which firmware starts a machine that is off.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::fault::{Fault, at};
use crate::health::read;
use crate::system::{System, put, run};

const CLOCKS: &str = "sys/class/rtc";
const ALARM: &str = "wakealarm";
const NONE: &[u8] = b"0\n";
/// An alarm that goes off while the machine still stops wakes nobody.
const WAKE_MIN_S: u64 = 30;
/// What a clock's date can be off by is the kernel's to say; this is for a slip of the finger.
const WAKE_MAX_S: u64 = 366 * 86_400;

/// When to start again, in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    in_s: u64,
}

/// An alarm that is set. It is taken back when this ends.
#[derive(Debug)]
pub struct Alarm {
    file: PathBuf,
    /// That of somebody else, in the clock's own seconds.
    before: Option<u64>,
}

impl Wake {
    fn after(in_s: u64) -> Result<Self, Fault> {
        if (WAKE_MIN_S..=WAKE_MAX_S).contains(&in_s) {
            return Ok(Self { in_s });
        }
        let why = format!("a time to wake is {WAKE_MIN_S} s to 366 days from now, not {in_s} s");
        Err(Fault::new(why))
    }

    /// After a number of seconds, or of another unit that follows it: `90`, `90s`, `30m`, `8h`, `2d`.
    ///
    /// # Errors
    /// One line, if it is something else, too soon or too late.
    pub fn after_words(text: &str) -> Result<Self, Fault> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit_s = match &text[digits.len()..] {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => 0,
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        if unit_s == 0 || !is_number {
            let why = format!("{text} is no time: give a number and s, m, h or d, as in 8h");
            return Err(Fault::new(why));
        }
        // Of too many digits: too late, whatever it is.
        let count: u64 = digits.parse().unwrap_or(u64::MAX);
        Self::after(count.saturating_mul(unit_s))
    }

    /// At a time that date(1) understands.
    ///
    /// # Errors
    /// As above.
    pub fn at_words(system: &System, text: &str) -> Result<Self, Fault> {
        let date = system.program("date", "coreutils")?;
        let words = [format!("--date={text}"), "+%s".to_owned()];
        let no_time = |_| Fault::new(format!("{text} is no time for date(1)"));
        let said = run(&date, &words).map_err(no_time)?;
        let until_s: i64 = said.trim().parse().map_err(at("date"))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.map_err(at("the system's time"))?.as_secs();
        let until_s = u64::try_from(until_s).unwrap_or_default();
        Self::after(until_s.saturating_sub(now_s))
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Fault> {
    put(file, bytes).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Fault::new("the clock's alarm is root's: be root"),
        ErrorKind::InvalidInput => {
            Fault::new("the clock cannot wake the machine so late: give an earlier time")
        }
        _ => at(file.display())(error),
    })
}

/// Its alarm; none: it has none that wakes a machine, or none is set.
fn alarm_of(file: &Path) -> Option<u64> {
    read::text(file)?.split_whitespace().next()?.parse().ok()
}

/// The first clock that can start a machine: the kernel gives only these an alarm in sysfs.
fn clock(system: &System) -> Result<PathBuf, Fault> {
    let mut clocks = read::devices(system, CLOCKS)
        .into_iter()
        .map(|(_, clock)| clock);
    let found = clocks
        .find(|clock| clock.join(ALARM).exists())
        .ok_or_else(|| {
            let why = "this machine has no clock that could start it (/sys/class/rtc/*/wakealarm)";
            Fault::new(why)
        })?;
    let switch = found.join("device/power/wakeup");
    if read::text(&switch).as_deref() == Some("disabled") {
        let why = format!(
            "the clock may not start it: echo enabled >{}",
            switch.display()
        );
        return Err(Fault::new(why));
    }
    Ok(found.join(ALARM))
}

impl Alarm {
    /// Sets it, in place of another one.
    ///
    /// # Errors
    /// One line, if there is no such clock, or it does not take the time; then all is as before.
    pub fn set(system: &System, wake: Wake) -> Result<Self, Fault> {
        let file = clock(system)?;
        let alarm = Self {
            before: alarm_of(&file),
            file,
        };
        // The kernel replaces none that is set.
        write(&alarm.file, NONE)?;
        // By the clock's own time, whatever that is beside the system's.
        write(&alarm.file, format!("+{}\n", wake.in_s).as_bytes())?;
        if alarm_of(&alarm.file).is_none() {
            return Err(Fault::new("the clock has not kept its alarm"));
        }
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // What cannot be taken back wakes nothing but a machine that is off.
        let _ = write(&self.file, NONE);
        if let Some(before) = self.before {
            let _ = write(&self.file, format!("{before}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    const FILE: &str = "sys/class/rtc/rtc0/wakealarm";

    fn why<T>(result: Result<T, Fault>) -> String {
        result.err().map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        for (text, in_s) in [("30", 30), ("90s", 90), ("2m", 120), ("8h", 28_800)] {
            assert_eq!(Wake::after_words(text).unwrap(), Wake { in_s }, "{text}");
        }
        assert_eq!(Wake::after_words("366d").unwrap().in_s, 31_622_400);
        for text in [
            "", "s", "1.5h", "-60", "+60", "60 s", "1w", "1hh", "é", "٣٠",
        ] {
            assert!(
                why(Wake::after_words(text)).contains(" is no time"),
                "{text}"
            );
        }
        for text in [
            "0",
            "29",
            "367d",
            "99999999999999999999",
            "9999999999999999d",
        ] {
            assert!(
                why(Wake::after_words(text)).contains("30 s to 366 days"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_date_is_read_by_date() {
        let fake = Fake::new();
        symlink("/bin/date", fake.path("bin/date")).unwrap();
        let at = |text: &str| Wake::at_words(&fake.system(), text);
        let found = at("now + 1 hour").unwrap().in_s;
        assert!((3590..=3600).contains(&found), "{found}");
        assert!(why(at("yesterday")).contains("not 0 s"));
        assert!(why(at("1969-01-01")).contains("not 0 s"));
        assert_eq!(why(at("teatime")), "teatime is no time for date(1)");
    }

    #[test]
    fn an_alarm_is_set_and_taken_back() {
        let fake = Fake::new();
        let wake = Wake { in_s: 60 };
        let set = || Alarm::set(&fake.system(), wake);
        let none = "this machine has no clock that could start it (/sys/class/rtc/*/wakealarm)";
        assert_eq!(why(set()), none);
        fake.write("sys/class/rtc/rtc1/date", "2026-01-01\n");
        assert_eq!(why(set()), none);
        fake.write(FILE, "");
        let alarm = set().unwrap();
        assert_eq!(alarm.before, None);
        // A file keeps what is written over what was longer.
        assert_eq!(fake.read(FILE), "+60\n");
        fake.write(FILE, "");
        drop(alarm);
        assert_eq!(fake.read(FILE), "0\n");
        // Somebody else's comes back.
        fake.write(FILE, "1764000000\n");
        let alarm = set().unwrap();
        assert_eq!(alarm.before, Some(1_764_000_000));
        fake.write(FILE, "");
        drop(alarm);
        assert_eq!(fake.read(FILE), "1764000000\n");
    }

    #[test]
    fn a_clock_that_may_not_wake_is_refused() {
        let fake = Fake::new();
        fake.write(FILE, "");
        fake.write("sys/class/rtc/rtc0/device/power/wakeup", "disabled\n");
        let why = why(Alarm::set(&fake.system(), Wake { in_s: 60 }));
        assert!(why.starts_with("the clock may not start it: echo enabled >"));
        assert_eq!(fake.read(FILE), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text_is_a_time_or_one_line(text in "[0-9]{0,30}.{0,3}|.*") {
            match Wake::after_words(&text) {
                Ok(wake) => prop_assert!((WAKE_MIN_S..=WAKE_MAX_S).contains(&wake.in_s)),
                Err(why) => prop_assert!(why.to_string().contains(" is ")),
            }
        }
    }
}
