// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pass over all sources. The kernel's file is one that keeps the last report of all.

use super::*;
use crate::system::tests::Fake;
use proptest::prelude::*;

const HEALTH: &str = "sys/kernel/remanence/health";
const STATUS: &str = "sys/kernel/remanence/status";
const STOP: &str = "sys/kernel/remanence/stop";
const WISHES: Wishes = Wishes {
    period_s: 300,
    low_percent: 10,
    dry_run: false,
};

/// A machine that knows these conditions, and has a battery of this charge, and a module.
fn machine(known: &str, capacity: &str) -> Fake {
    let fake = Fake::new();
    fake.write(HEALTH, known);
    fake.write(STATUS, "armed\n");
    fake.write(STOP, "");
    for (file, text) in [
        ("type", "Battery"),
        ("status", "Discharging"),
        ("capacity", capacity),
    ] {
        fake.write(&format!("sys/class/power_supply/BAT0/{file}"), text);
    }
    fake.write("sys/bus/nd/devices/nmem0/nfit/flags", "\n");
    fake.add_any("shutdown");
    fake
}

fn changes(fake: &Fake) -> Vec<String> {
    health(&fake.system(), WISHES).unwrap().changes
}

#[test]
fn what_is_well_is_reported_and_no_change() {
    let fake = machine("", "90");
    let report = health(&fake.system(), WISHES).unwrap();
    let states: Vec<_> = report
        .sources
        .iter()
        .map(|it| (it.name, it.state))
        .collect();
    let expected = [
        ("battery", "ok"),
        ("mains", "none"),
        ("psu", "none"),
        ("redfish", "none"),
        ("nvdimm", "ok"),
        ("thermal", "none"),
    ];
    assert_eq!(states, expected);
    assert!(report.changes.is_empty() && !report.low && !report.is_bad());
    // Each is a write of its own; a file has the last one, over the ones before.
    assert!(fake.read(HEALTH).starts_with("thermal 0 ok\n"));
    let reports: Vec<_> = report.sources.iter().map(|it| it.report(300)).collect();
    assert_eq!(reports[0], "battery 300 ok\n");
    assert_eq!(reports[1], "mains 0 ok\n");
}

#[test]
fn a_change_is_a_line_once() {
    let fake = machine("", "7");
    let line = "battery: bad BAT0 is at 7 %";
    assert_eq!(changes(&fake), [line]);
    fake.write(
        HEALTH,
        "battery bad 12 300 BAT0 is at 7 %\nnvdimm ok 12 300\n",
    );
    assert!(changes(&fake).is_empty());
    fake.write(
        HEALTH,
        "battery bad 12 300 BAT0 is at 8 %\nnvdimm silent 900 300\n",
    );
    assert_eq!(changes(&fake), [line, "nvdimm: ok"]);
    let fake = machine("battery bad 12 300 BAT0 is at 7 %\n", "80");
    assert_eq!(changes(&fake), ["battery: ok"]);
}

#[test]
fn what_was_there_and_is_gone_is_bad_until_somebody_forgets_it() {
    for known in [
        "psu ok 12 300\n",
        "psu bad 12 300 x\n",
        "psu silent 900 300\n",
    ] {
        let fake = machine(known, "80");
        let line = "psu: bad was there, and is gone";
        assert_eq!(changes(&fake), [line], "{known}");
    }
    let fake = machine("psu ok 12 300\n", "80");
    forget(&fake.system()).unwrap();
    assert!(fake.read(HEALTH).starts_with("thermal 0 ok\n"));
}

#[test]
fn a_dry_run_reports_nothing() {
    let fake = machine("", "7");
    let wishes = Wishes {
        dry_run: true,
        ..WISHES
    };
    let report = health(&fake.system(), wishes).unwrap();
    assert!(report.is_bad() && report.low);
    assert_eq!(report.lines()[0], "battery: bad BAT0 is at 7 %");
    assert_eq!(fake.read(HEALTH), "");
}

#[test]
fn a_kernel_that_takes_no_reports_is_one_line() {
    let fake = Fake::new();
    let why = |fake: &Fake| health(&fake.system(), WISHES).unwrap_err().to_string();
    assert_eq!(why(&fake), NO_REMANENCE);
    fake.write(STATUS, "armed\n");
    assert!(why(&fake).starts_with("this kernel takes no reports of health"));
}

/// By the state of the machine: what an empty battery leads to.
#[test]
fn an_empty_battery_is_a_stop_where_there_would_be_an_image() {
    for (status, stops) in [
        ("armed", true),
        ("unhealthy: battery: BAT0 is at 7 %", true),
        ("refused: a Stop may outlast the hold-up", false),
        ("stopping", false),
        ("", false),
    ] {
        let fake = machine("", "7");
        fake.write(STATUS, format!("{status}\n"));
        battery_low(&fake.system()).unwrap();
        let shut = fake.read("bin/log");
        let (stopped, shut) = (fake.read(STOP), shut.trim());
        let expected = if stops {
            ("now\n", "")
        } else {
            ("", "shutdown -h +0")
        };
        assert_eq!((stopped.as_str(), shut), expected, "{status}");
    }
}

#[test]
fn a_refused_stop_is_a_shutdown() {
    let fake = machine("", "7");
    fs::remove_file(fake.path(STOP)).unwrap();
    battery_low(&fake.system()).unwrap();
    assert_eq!(fake.read("bin/log").trim(), "shutdown -h +0");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever a device's maker writes, the kernel takes the report: one line, not too long.
    #[test]
    fn any_reason_is_one_report(why in "(?s).{1,200}", period_s in 0..=86_400_u32) {
        let source = Source::new("psu", Found::Bad(format!("x{why}")));
        let line = source.report(period_s);
        prop_assert_eq!(line.matches('\n').count(), 1);
        let text = line.strip_prefix(&format!("psu {period_s} bad ")).unwrap();
        prop_assert!(text.trim_end() == text.trim_end_matches('\n') && text.len() <= TEXT_BYTES + 1);
        prop_assert!(!text.trim().is_empty() && text.trim_end().bytes().all(|it| (b' '..=b'~').contains(&it)));
    }

    /// Whatever the kernel's file says, a pass reports what is bad.
    #[test]
    fn any_knowledge_is_no_excuse(known in "(?s).*") {
        let fake = machine(&known, "7");
        let report = health(&fake.system(), WISHES).unwrap();
        prop_assert_eq!(report.sources[0].state, "bad");
    }
}
