// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second model of OC-PMEM, slow and plain: it keeps every programming and every
//! read of each device there ever was and searches them all. Both must give the same
//! time for every request of random traces.

#![expect(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

use ocpmem::memory::Memory;
use ocpmem::parts::Part;
use ocpmem::psm::{Order, PramPart, Psm, PsmConfig, Stagger};
use ocpmem::startgap::WearConfig;
use ocpmem::units::{LineAddr, PhysLine, Ps};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(u64),
    Write(u64),
    Flush,
}

/// One device: what it did and will do, each as (from, to).
#[derive(Clone, Debug, Default)]
struct Device {
    programs: Vec<(u64, u64)>,
    reads_end: u64,
}

impl Device {
    /// The first moment from `at` at which a read of length `read` meets no programming.
    fn readable(&self, at: u64, read: u64) -> u64 {
        let mut start = at.max(self.reads_end);
        while let Some((_, to)) = self
            .programs
            .iter()
            .find(|(from, to)| *to > start && *from < start + read)
        {
            start = *to;
        }
        start
    }
    fn programmed(&self) -> u64 {
        self.programs.iter().map(|(_, to)| *to).max().unwrap_or(0)
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    devices: [Device; 3],
    page: Option<u64>,
    dirty: Vec<u64>,
    buffer_free: u64,
    /// Rows that are in the latches: (row, until).
    latched: Vec<(u64, u64)>,
}

/// Times are in picoseconds. Wear levelling is off: a line's place is its number.
struct Reference {
    config: PsmConfig,
    part: PramPart,
    groups: BTreeMap<u64, Group>,
    bus: BTreeMap<u64, u64>,
    began: BTreeMap<u64, u64>,
    began_last: u64,
    blocked_until: u64,
}

impl Reference {
    fn group_count(&self) -> u64 {
        self.part.dimms * self.part.devices_per_dimm / 3
    }
    fn front(&self) -> u64 {
        self.part.controller.0 / 2
    }
    fn back(&self) -> u64 {
        self.part.controller.0 - self.front()
    }
    fn pieces(&self) -> usize {
        if self.config.xcc { 3 } else { 2 }
    }
    fn begin(&self, at: u64, channel: u64) -> u64 {
        let mut begin = (at + self.front()).max(self.blocked_until);
        // What began before, of those that keep an order with this one.
        let before = match self.config.order {
            Order::Free => 0,
            Order::Channel => *self.began.get(&channel).unwrap_or(&0),
            Order::Module => self.began_last,
        };
        begin = begin.max(before);
        begin
    }
    fn carry(&mut self, channel: u64, asked: u64, ready: u64) -> u64 {
        let bus = self.bus.entry(channel).or_insert(0);
        let from = asked.max(*bus);
        *bus = from + self.part.burst.0;
        ready.max(from) + self.part.burst.0
    }
    /// Program rows; when the first device begins, and when all have ended.
    fn program(&mut self, group: u64, rows: &[u64], at: u64) -> (u64, u64) {
        let pieces = self.pieces();
        let busy = self.part.program.0 * rows.len() as u64;
        let group = self.groups.get_mut(&group).unwrap();
        let before = group.devices.iter().map(Device::programmed).max().unwrap();
        let staggered = pieces == 3
            && match self.config.stagger {
                Stagger::Always => true,
                Stagger::WhenIdle => at >= before,
                Stagger::Never => false,
            };
        let mut next = at.max(before);
        let (mut first, mut last) = (None, 0);
        for device in &mut group.devices[..pieces] {
            let from = next.max(device.reads_end);
            device.programs.push((from, from + busy));
            first = first.or(Some(from));
            last = last.max(from + busy);
            if staggered {
                next = from + busy;
            }
        }
        group.latched.extend(rows.iter().map(|row| (*row, last)));
        (first.unwrap(), last)
    }
    fn buffer(&mut self, number: u64, row: u64, at: u64) -> u64 {
        let page = row / (self.part.page_bytes / 32);
        let group = self.groups.entry(number).or_default();
        let at = at.max(group.buffer_free);
        let mut begin = at;
        if group.page != Some(page) && !group.dirty.is_empty() {
            let rows = std::mem::take(&mut group.dirty);
            let (first, last) = self.program(number, &rows, at);
            begin = if rows.len() == 1 {
                first
            } else {
                last - self.part.program.0
            };
        }
        let group = self.groups.get_mut(&number).unwrap();
        group.page = Some(page);
        if !group.dirty.contains(&row) {
            group.dirty.push(row);
        }
        group.buffer_free = begin + self.part.row_buffer.0;
        begin
    }
    fn write(&mut self, at: u64, line: u64) -> u64 {
        let (number, row) = (line % self.group_count(), line / self.group_count());
        self.groups.entry(number).or_default();
        let channel = number % self.part.dimms;
        let begin = self.begin(at, channel);
        let arrived = self.carry(channel, begin, begin);
        let (start, accepted) = if self.config.row_buffer {
            let start = self.buffer(number, row, arrived);
            if self.config.early_return {
                (start, start + self.part.row_buffer.0)
            } else {
                let rows = std::mem::take(&mut self.groups.get_mut(&number).unwrap().dirty);
                self.program(number, &rows, start)
            }
        } else {
            let (first, last) = self.program(number, &[row], arrived);
            (
                first,
                if self.config.early_return {
                    first + self.part.row_buffer.0
                } else {
                    last
                },
            )
        };
        self.began.insert(channel, start);
        self.began_last = start;
        accepted + self.back()
    }
    fn read(&mut self, at: u64, line: u64) -> u64 {
        let (number, row) = (line % self.group_count(), line / self.group_count());
        let channel = number % self.part.dimms;
        let begin = self.begin(at, channel);
        let (xcc, read, buffer) = (self.config.xcc, self.part.read.0, self.part.row_buffer.0);
        let group = self.groups.entry(number).or_default();
        let (start, ready) = if group.dirty.contains(&row) {
            let start = begin.max(group.buffer_free);
            (start, start + buffer)
        } else if group
            .latched
            .iter()
            .any(|(it, until)| *it == row && begin < *until)
        {
            (begin, begin + buffer)
        } else {
            let at = |piece: usize| group.devices[piece].readable(begin, read);
            // Every way to have two of the three; the plain one if none is sooner.
            let ways: &[(usize, usize)] = if xcc {
                &[(0, 1), (0, 2), (1, 2)]
            } else {
                &[(0, 1)]
            };
            let (mut start, _, (a, b)) = ways
                .iter()
                .enumerate()
                .map(|(n, way)| (at(way.0).max(at(way.1)), n, *way))
                .min()
                .unwrap();
            // At the moment at which one is ready the other may be about to be programmed.
            loop {
                let both = [a, b].map(|piece| group.devices[piece].readable(start, read));
                let later = both[0].max(both[1]);
                if later == start {
                    break;
                }
                start = later;
            }
            for piece in [a, b] {
                group.devices[piece].reads_end = start + read;
            }
            (start, start + read)
        };
        self.began.insert(channel, start);
        self.began_last = start;
        let checked = if xcc { ready + self.part.xcc.0 } else { ready };
        self.carry(channel, begin, checked) + self.back()
    }
    fn flush(&mut self, at: u64) -> u64 {
        let begin = (at + self.front()).max(self.blocked_until);
        let mut end = begin;
        for number in 0..self.group_count() {
            let group = self.groups.entry(number).or_default();
            let from = begin.max(group.buffer_free);
            let rows = std::mem::take(&mut group.dirty);
            if !rows.is_empty() {
                self.program(number, &rows, from);
            }
            let group = &self.groups[&number];
            end = group
                .devices
                .iter()
                .map(Device::programmed)
                .fold(end, u64::max);
        }
        self.blocked_until = end;
        end + self.back()
    }
}

fn config() -> impl Strategy<Value = PsmConfig> {
    let stagger = prop_oneof![
        Just(Stagger::Always),
        Just(Stagger::WhenIdle),
        Just(Stagger::Never)
    ];
    let order = prop_oneof![Just(Order::Free), Just(Order::Channel), Just(Order::Module)];
    (any::<[bool; 3]>(), stagger, order).prop_map(
        |([xcc, early_return, row_buffer], stagger, order)| PsmConfig {
            xcc,
            stagger,
            early_return,
            row_buffer,
            order,
            wear: WearConfig {
                start_gap: false,
                randomize: false,
                ..WearConfig::paper(1)
            },
            ..PsmConfig::lightpc()
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<(Op, u64)>> {
    let line = prop_oneof![0_u64..4, (0_u64..4).prop_map(|n| n * 24), 0_u64..8192];
    let op = prop_oneof![
        10 => line.clone().prop_map(Op::Read),
        10 => line.prop_map(Op::Write),
        1 => Just(Op::Flush),
    ];
    // Pauses are such that a group never has more windows waiting than it keeps.
    prop::collection::vec((op, 0_u64..900_000), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_models_agree_on_every_request(config in config(), ops in ops()) {
        let part = PramPart::from_part(&Part::built_in("lpc-table1").unwrap()).unwrap();
        let mut fast = Psm::new(config, part, 8192).unwrap();
        let mut plain = Reference {
            config, part,
            groups: BTreeMap::new(), bus: BTreeMap::new(), began: BTreeMap::new(), began_last: 0, blocked_until: 0,
        };
        prop_assert_eq!(fast.leveler().locate(LineAddr(77)), PhysLine(77));
        let mut now = 0;
        for (number, (op, pause)) in ops.into_iter().enumerate() {
            now += pause;
            let (ours, theirs) = match op {
                Op::Read(line) => (fast.read(Ps(now), LineAddr(line)), plain.read(now, line)),
                Op::Write(line) => (fast.write(Ps(now), LineAddr(line)), plain.write(now, line)),
                Op::Flush => (fast.flush(Ps(now)), plain.flush(now)),
            };
            prop_assert_eq!(ours, Ps(theirs), "request {} {:?}", number, op);
        }
    }
}
