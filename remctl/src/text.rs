// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A status for people: what it is about on the left, what there is to say on the right.

use std::collections::BTreeMap;
use std::io;

use crate::firmware::Firmware;
use crate::status::{Condition, LastBoot, Mode, OnEsp, Part, Status, Trust};

const LABEL_CHARS: usize = 12;

fn last_boot(last: &LastBoot) -> String {
    let held = last.held.as_ref();
    let held = held.map_or_else(String::new, |held| format!(", held before: {held}"));
    if last.resumed {
        return format!("resumed from image {}{held}", last.sequence);
    }
    format!("cold: {} ({}){held}", last.reason, last.code)
}

fn images(status: &Status) -> Option<String> {
    let resumes = status.resumes?;
    Some(match status.sequence {
        Some(0) | None => format!("{resumes} entered since the last cold boot, no next one"),
        Some(next) => format!("{resumes} entered since the last cold boot, the next is {next}"),
    })
}

fn last_error(errno: i64) -> Option<String> {
    let errno = i32::try_from(-errno).ok().filter(|&errno| errno != 0)?;
    Some(format!(
        "the last one was abandoned: {}",
        io::Error::from_raw_os_error(errno)
    ))
}

fn mode(mode: &Mode) -> String {
    match &mode.because {
        Some(because) => format!("{}, because of {because}", mode.mode),
        None => mode.mode.clone(),
    }
}

/// Nanoseconds as milliseconds, to a microsecond.
fn ms(ns: i64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

fn budget(budget: &BTreeMap<String, i64>) -> Option<String> {
    let mut text = format!("at most {}", ms(*budget.get("bound_ns")?));
    text += &match budget.get("hold_up_ns") {
        Some(&ns) if ns > 0 => format!(", the supply holds {}", ms(ns)),
        _ => ", for how long the supply holds is unknown".to_owned(),
    };
    for (name, label) in [("last_ns", "last"), ("worst_ns", "longest")] {
        if let Some(&ns) = budget.get(name).filter(|&&ns| ns > 0) {
            text += &format!(", {label} {}", ms(ns));
        }
    }
    Some(text)
}

fn trust(trust: &Trust) -> String {
    let mut text = trust.state.clone();
    if let Some(counter) = trust.counter {
        text += &format!(", boot {counter} by the TPM");
    }
    if let Some(us) = trust.tpm_us.and_then(|us| i64::try_from(us).ok()) {
        text += &format!(", which took {}", ms(us.saturating_mul(1000)));
    }
    match trust.text_kib {
        Some(0) => text += "; all memory is trusted",
        Some(kib) => text += &format!("; {kib} KiB of text, other memory is trusted"),
        None => {}
    }
    text
}

fn dirty_shutdowns(counts: &BTreeMap<String, i64>) -> Option<String> {
    let dirty = counts.iter().filter(|&(_, &n)| n > 0);
    let dirty: Vec<String> = dirty.map(|(name, n)| format!("{name} {n}")).collect();
    (!dirty.is_empty()).then(|| format!("dirty shutdowns: {}", dirty.join(", ")))
}

fn health(conditions: &[Condition]) -> Option<String> {
    let one = |it: &Condition| {
        let why = it.why.iter().map(|why| format!(": {why}"));
        let since = it.is_bad().then(|| format!(" ({} s ago)", it.age_s));
        let more: String = why.chain(since).collect();
        format!("{} {}{more}", it.name, it.state)
    };
    let all: Vec<String> = conditions.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn part(part: &Part) -> Option<String> {
    let state = part.state.as_ref()?;
    if state.starts_with("off") || part.counts.is_empty() {
        return Some(state.clone());
    }
    let counts: Vec<String> = part
        .counts
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    Some(format!("{state}; {}", counts.join(", ")))
}

fn firmware(firmware: Firmware) -> String {
    let kind = if firmware.uefi == Some(true) {
        "UEFI"
    } else {
        "unknown"
    };
    let secure = match firmware.secure_boot {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown to this kernel",
    };
    format!("{kind}, Secure Boot {secure}")
}

fn installed(there: Option<&OnEsp>) -> String {
    there.map_or_else(
        || "nothing that is known: remctl install".to_owned(),
        |there| {
            let runs = if there.runs {
                "which runs"
            } else {
                "which does not run"
            };
            let signed = if there.signed { ", signed" } else { "" };
            format!("{}, {runs}{signed}", there.version)
        },
    )
}

/// Lines.
#[must_use]
pub fn lines(status: &Status) -> Vec<String> {
    let disks: Vec<String> = status
        .disks
        .iter()
        .map(|disk| format!("{} {}", disk.name, disk.policy))
        .collect();
    let flush = status.flush_on_fail.map(|on| {
        if on {
            "saved by a Stop"
        } else {
            "not saved by a Stop"
        }
    });
    let rows = [
        (
            "state",
            Some(status.state.clone().unwrap_or_else(|| "unknown".to_owned())),
        ),
        ("last boot", status.last_boot.as_ref().map(last_boot)),
        ("images", images(status)),
        ("stop", status.stop_mode.as_ref().map(mode)),
        ("", status.last_error.and_then(last_error)),
        ("budget", budget(&status.budget)),
        ("disks", (!disks.is_empty()).then(|| disks.join(", "))),
        ("hold", status.hold.clone()),
        ("nvdimm", status.nvdimm.clone()),
        ("", dirty_shutdowns(&status.dirty_shutdowns)),
        ("trust", status.trust.as_ref().map(trust)),
        ("caches", flush.map(str::to_owned)),
        ("health", health(&status.health)),
        ("fsync", part(&status.persist)),
        ("dram", part(&status.dram)),
        ("firmware", Some(firmware(status.firmware))),
        ("installed", Some(installed(status.installed.as_ref()))),
    ];
    let row =
        |(label, text): (&str, Option<String>)| Some(format!("{label:LABEL_CHARS$}{}", text?));
    let notes = status.notes.iter().map(|note| format!("note: {note}"));
    rows.into_iter().filter_map(row).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{status, tests::machine};

    #[test]
    fn a_status_is_aligned_and_short() {
        let fake = machine();
        let found = status(&fake.system()).unwrap();
        assert_eq!(
            lines(&found),
            [
                "state       armed",
                "last boot   resumed from image 7",
                "images      3 entered since the last cold boot, the next is 8",
                "stop        dpm, because of 0000:00:03.0",
                "budget      at most 2.345 ms, the supply holds 33.000 ms, last 0.512 ms, longest 0.612 ms",
                "disks       vda protected, vdb open",
                "hold        60,keep",
                "nvdimm      armed ready",
                "            dirty shutdowns: nmem0 2",
                "trust       on, boot 12 by the TPM, which took 13.436 ms; 9880 KiB of text, other memory is trusted",
                "caches      not saved by a Stop",
                "health      psu ok, battery bad: at 7 % (3 s ago)",
                "fsync       memory; by_disk 1, in_memory 12",
                "dram        off: memtype=mixed was not given",
                "firmware    unknown, Secure Boot unknown to this kernel",
                "installed   6.12.57-remanence, which runs",
            ]
        );
    }

    #[test]
    fn what_is_unknown_is_left_out_or_said() {
        let mut found = Status {
            last_error: Some(-16),
            sequence: Some(0),
            resumes: Some(0),
            notes: vec!["careful".to_owned()],
            ..Status::default()
        };
        found.budget.insert("bound_ns".to_owned(), 1_000);
        assert_eq!(
            lines(&found),
            [
                "state       unknown",
                "images      0 entered since the last cold boot, no next one",
                "            the last one was abandoned: Device or resource busy (os error 16)",
                "budget      at most 0.001 ms, for how long the supply holds is unknown",
                "firmware    unknown, Secure Boot unknown to this kernel",
                "installed   nothing that is known: remctl install",
                "note: careful",
            ]
        );
        let cold = LastBoot {
            resumed: false,
            reason: "not-committed".to_owned(),
            code: 19,
            sequence: 0,
            held: Some("disk-differs".to_owned()),
        };
        assert_eq!(
            last_boot(&cold),
            "cold: not-committed (19), held before: disk-differs"
        );
    }
}
