// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The status as metrics, in the text format of Prometheus: a file for the node exporter's textfile
//! collector. Names have base units; `remanence_armed` is there whatever else is not.

use std::fmt::Write;

use crate::status::{Part, Status};

const PREFIX: &str = "remanence_";
const NS_PER_S: i64 = 1_000_000_000;

/// The text that is written so far.
#[derive(Default)]
struct Text(String);

impl Text {
    /// A metric and its samples: labels and a value of each. Without samples it is left out.
    fn add<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, String)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let text = &mut self.0;
        // Writing to a String does not fail.
        let _ = writeln!(text, "# HELP {PREFIX}{name} {help}");
        let _ = writeln!(text, "# TYPE {PREFIX}{name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!("{{{}}}", labels.join(","))
            };
            let _ = writeln!(text, "{PREFIX}{name}{labels} {value}");
        }
    }

    fn one(&mut self, name: &str, help: &str, value: Option<i64>) {
        self.add(
            name,
            help,
            value.map(|value| (Vec::new(), value.to_string())),
        );
    }

    fn flag(&mut self, name: &str, help: &str, value: Option<bool>) {
        self.one(name, help, value.map(i64::from));
    }

    fn part(&mut self, name: &str, help: &str, part: &Part) {
        let samples = part.counts.iter();
        let samples = samples.map(|(count, n)| (vec![("count", count.as_str())], n.to_string()));
        self.add(name, help, samples);
    }
}

/// A label's value, as the format has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Nanoseconds as seconds; nothing is rounded. Less than none is none.
fn seconds(ns: i64) -> String {
    let ns = ns.max(0);
    format!("{}.{:09}", ns / NS_PER_S, ns % NS_PER_S)
}

/// All metrics. Without a status, of a kernel without Remanence, only that nothing is armed.
#[must_use]
pub fn metrics(status: Option<&Status>) -> String {
    let mut text = Text::default();
    let armed = status.is_some_and(|status| status.armed);
    text.flag(
        "armed",
        "Whether the next power failure is survived.",
        Some(armed),
    );
    if let Some(status) = status {
        boots(&mut text, status);
        stops(&mut text, status);
        devices(&mut text, status);
    }
    text.0
}

fn boots(text: &mut Text, status: &Status) {
    text.flag(
        "authenticated",
        "Whether images are authenticated.",
        status.trust.as_ref().map(|trust| trust.state == "on"),
    );
    let last = status.last_boot.iter();
    text.add(
        "last_boot",
        "1: what the loader decided at the last boot.",
        last.map(|last| (vec![("reason", last.reason.as_str())], "1".to_owned())),
    );
    text.one(
        "resumes_total",
        "Images entered since the last cold boot.",
        status.resumes,
    );
    text.one(
        "next_image",
        "Number of the next image; 0: none is possible.",
        status.sequence,
    );
    text.flag(
        "installed_kernel_runs",
        "Whether the kernel on the EFI system partition is the running one.",
        status.installed.as_ref().map(|installed| installed.runs),
    );
    text.one(
        "notes",
        "Lines of remctl status that need attention.",
        i64::try_from(status.notes.len()).ok(),
    );
}

fn stops(text: &mut Text, status: &Status) {
    let times = [
        (
            "bound_ns",
            "stop_bound_seconds",
            "How long a Stop may take.",
        ),
        (
            "hold_up_ns",
            "hold_up_seconds",
            "How long the supply holds; 0: unknown.",
        ),
        (
            "last_ns",
            "stop_last_seconds",
            "How long the last Stop took; 0: none.",
        ),
        (
            "worst_ns",
            "stop_worst_seconds",
            "How long the longest Stop took; 0: none.",
        ),
    ];
    for (file, name, help) in times {
        let value = status.budget.get(file).map(|&ns| seconds(ns));
        text.add(name, help, value.map(|value| (Vec::new(), value)));
    }
    text.one(
        "stop_bound_exceeded",
        "Whether a Stop took longer than its bound, and nobody has acknowledged it.",
        status.budget.get("exceeded").copied(),
    );
    let fast = status.stop_mode.as_ref().map(|mode| mode.mode == "fast");
    text.flag("stop_is_bounded", "Whether devices are stopped fast.", fast);
    text.one(
        "stop_error",
        "Why the last Stop was abandoned, a positive errno; 0: it was not.",
        status.last_error.map(i64::saturating_abs),
    );
}

fn devices(text: &mut Text, status: &Status) {
    text.flag(
        "flush_on_fail",
        "Whether what is in the caches is saved.",
        status.flush_on_fail,
    );
    let conditions = status.health.iter();
    text.add(
        "condition",
        "1: what is reported of the supply is bad, or nobody has reported it in time.",
        conditions.map(|condition| {
            let value = if condition.is_bad() { "1" } else { "0" };
            (vec![("name", condition.name.as_str())], value.to_owned())
        }),
    );
    let disks = status.disks.iter();
    text.add(
        "disk",
        "1: a disk, and what keeps its acknowledged writes.",
        disks.map(|disk| {
            let labels = vec![
                ("disk", disk.name.as_str()),
                ("policy", disk.policy.as_str()),
            ];
            (labels, "1".to_owned())
        }),
    );
    let modules = status.dirty_shutdowns.iter();
    text.add(
        "dirty_shutdowns_total",
        "How often the memory of a module was not saved, as it counts itself.",
        modules.map(|(module, n)| (vec![("module", module.as_str())], n.to_string())),
    );
    text.part("persist", "Counts of fsync in memory.", &status.persist);
    text.part("dram", "Counts of DRAM as a cache.", &status.dram);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::status;
    use crate::status::tests::machine;

    /// Value of each sample, by name and labels, after the format was checked line by line.
    fn samples(text: &str) -> Vec<(String, String)> {
        assert!(text.ends_with('\n'));
        let (mut found, mut metric) = (Vec::new(), "");
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("# TYPE ") {
                let (name, kind) = words.split_once(' ').unwrap();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(text.contains(&format!("# HELP {name} ")), "{line}");
                assert_eq!(text.matches(line).count(), 1, "{line}");
                metric = name;
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(name.split('{').next(), Some(metric), "{line}");
                value.parse::<f64>().unwrap();
                found.push((name.to_owned(), value.to_owned()));
            }
        }
        found
    }

    #[test]
    fn all_that_is_known_is_there() {
        let status = status(&machine().system()).unwrap();
        let found = samples(&metrics(Some(&status)));
        let value = |name: &str| {
            let name = format!("{PREFIX}{name}");
            let found = found.iter().find(|(known, _)| *known == name);
            found.map_or("none", |(_, value)| value.as_str())
        };
        for (name, expected) in [
            ("armed", "1"),
            ("last_boot{reason=\"resume\"}", "1"),
            ("resumes_total", "3"),
            ("next_image", "8"),
            ("installed_kernel_runs", "1"),
            ("notes", "0"),
            ("authenticated", "1"),
            ("stop_bound_seconds", "0.002345678"),
            ("hold_up_seconds", "0.033000000"),
            ("stop_bound_exceeded", "0"),
            ("stop_is_bounded", "0"),
            ("stop_error", "0"),
            ("flush_on_fail", "0"),
            ("condition{name=\"psu\"}", "0"),
            ("condition{name=\"battery\"}", "1"),
            ("disk{disk=\"vdb\",policy=\"open\"}", "1"),
            ("dirty_shutdowns_total{module=\"nmem0\"}", "2"),
            ("persist{count=\"in_memory\"}", "12"),
            ("dram{count=\"frames\"}", "0"),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
    }

    #[test]
    fn a_refusal_is_not_armed() {
        let fake = machine();
        fake.write(
            "sys/kernel/remanence/status",
            "refused: a Stop outlasted its bound\n",
        );
        let status = status(&fake.system()).unwrap();
        let found = samples(&metrics(Some(&status)));
        assert_eq!(found[0], ("remanence_armed".to_owned(), "0".to_owned()));
    }

    #[test]
    fn a_kernel_without_remanence_is_not_armed() {
        let found = samples(&metrics(None));
        assert_eq!(found, [("remanence_armed".to_owned(), "0".to_owned())]);
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let found = samples(&metrics(Some(&Status::default())));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["remanence_armed", "remanence_notes"]);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(seconds(-1), "0.000000000");
        assert_eq!(seconds(61_000_000_001), "61.000000001");
    }
}
