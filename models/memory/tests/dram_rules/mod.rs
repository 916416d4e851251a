// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold of DRAM: gates of a bank and of a channel, that every row that a read has taken out of its cells is
//! written back and counted, that refresh is counted and stops a channel, and that energy is the
//! sum of these counts. Shown on the log of commands, under random traffic.

use ocpmem::dram::{Command, Dram, DramPart};
use ocpmem::memory::Memory;
use ocpmem::parts::Part;
use ocpmem::units::{LineAddr, Ps, random};
use std::collections::BTreeMap;

/// A verdict, which planted bugs refer to, and details.
pub type Broken = (&'static str, String);

/// What checks a rule.
pub type Rule = fn() -> Result<(), Broken>;

const PART: &str = "ddr4";
const LINES: u64 = 1 << 22;
const SEEDS: std::ops::Range<u64> = 1..9;
const REQUESTS: u64 = 4000;

fn expect(verdict: &'static str, holds: bool, what: String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((verdict, what)) }
}

/// The part, and a number of its table.
struct Table {
    part: DramPart,
    text: Part,
}

impl Table {
    fn new() -> Result<Self, Broken> {
        let broken = |error| ("part", format!("{error}"));
        let text = Part::built_in(PART).map_err(broken)?;
        let part = DramPart::from_part(&text).map_err(broken)?;
        Ok(Self { part, text })
    }

    fn time(&self, key: &str) -> Ps {
        Ps::from_ns(self.text.values[key].value)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the model has read it as a whole number"
    )]
    fn count(&self, key: &str) -> u64 {
        self.text.values[key].value as u64
    }
}

/// A memory after random traffic: its log, and when the last request came.
struct Ran {
    memory: Dram,
    log: Vec<(usize, Command, Ps)>,
    until: Ps,
}

/// `gap_bits`: two requests are up to so many picoseconds apart, as a power of two. Half of them go
/// to two banks, where they are in each other's way.
fn run(table: &Table, seed: u64, gap_bits: u32) -> Result<Ran, Broken> {
    let memory = Dram::new(table.part, LINES);
    let mut memory = memory.map_err(|error| ("part", format!("{error}")))?;
    memory.log_commands();
    let (mut state, mut until) = (seed, Ps::ZERO);
    let row = table.count("row_bytes") / 64 * table.count("channels") * table.count("banks");
    for _ in 0..REQUESTS {
        let dice = random(&mut state);
        until = until + Ps(dice >> (64 - gap_bits));
        let line = if dice & 2 == 0 {
            (dice & 1) + ((dice >> 2) & 7) * row
        } else {
            (dice >> 2) % LINES
        };
        if (dice >> 32) & 3 == 0 {
            memory.write(until, LineAddr(line))
        } else {
            memory.read(until, LineAddr(line))
        };
    }
    let log = memory.take_commands();
    Ok(Ran { memory, log, until })
}

/// Requests that queue, and requests that find banks idle.
const GAP_BITS: [u32; 2] = [14, 20];

/// Both kinds of traffic.
fn every(check: impl Fn(&Table, &Ran) -> Result<(), Broken>) -> Result<(), Broken> {
    let table = Table::new()?;
    for gap_bits in GAP_BITS {
        for seed in SEEDS {
            check(&table, &run(&table, seed, gap_bits)?)?;
        }
    }
    Ok(())
}

/// Commands of one bank, in their order.
fn by_bank(ran: &Ran) -> Vec<Vec<(Command, Ps)>> {
    let banks = ran.log.iter().map(|it| it.0 + 1).max().unwrap_or(0);
    let mut found = vec![Vec::new(); banks];
    for (bank, command, at) in &ran.log {
        found[*bank].push((*command, *at));
    }
    found
}

/// Whether a refresh of the channel began after the one moment and not after the other.
fn refreshed(table: &Table, from: Ps, to: Ps) -> bool {
    let round = |at: Ps| at.0 / table.time("trefi_ns").0;
    round(to) > round(from)
}

/// A row is opened when the last one was closed for tRP, and closed when it was open for tRAS and
/// its last write has been there for tWR; columns wait for tRCD.
pub fn gates_are_kept() -> Result<(), Broken> {
    every(|table, ran| {
        let data = table.time("tcwl_ns") + table.time("tburst_ns");
        for commands in by_bank(ran) {
            let mut last = [None::<Ps>; 4];
            for (command, at) in commands {
                let gates: &[(Command, Ps, &str)] = match command {
                    Command::Open => &[(Command::Close, table.part.trp, "tRP")],
                    Command::Close => &[
                        (Command::Open, table.part.tras, "tRAS"),
                        (Command::Write, data + table.part.twr, "tWR"),
                    ],
                    _ => &[(Command::Open, table.part.trcd, "tRCD")],
                };
                for (after, least, name) in gates {
                    let kept = last[*after as usize].is_none_or(|from| at >= from + *least);
                    expect("early", kept, format!("{name}: {command:?} at {at:?}"))?;
                }
                last[command as usize] = Some(at);
            }
        }
        Ok(())
    })
}

/// Requests that come faster than the banks of six channels can open rows.
const FLOOD_BITS: u32 = 11;

/// Commands of each channel in the order of time: when, and of which bank group.
fn by_channel(
    table: &Table,
    ran: &Ran,
    wanted: fn(Command) -> bool,
) -> BTreeMap<u64, Vec<(Ps, u64)>> {
    let (banks, groups) = (table.count("banks"), table.count("bank_groups"));
    let mut found: BTreeMap<u64, Vec<(Ps, u64)>> = BTreeMap::new();
    for (bank, _, at) in ran.log.iter().filter(|it| wanted(it.1)) {
        let bank = *bank as u64;
        let commands = found.entry(bank / banks).or_default();
        commands.push((*at, bank % groups));
    }
    found.values_mut().for_each(|all| all.sort_unstable());
    found
}

/// Whether each two commands are `least` apart: those of one bank group, or those of different ones.
fn apart(all: &[(Ps, u64)], in_one_group: bool, least: Ps) -> bool {
    (0..all.len()).all(|n| {
        let (at, group) = all[n];
        let near = all[n + 1..].iter().take_while(|it| it.0 < at + least);
        near.into_iter().all(|it| (it.1 == group) != in_one_group)
    })
}

/// Rows that a channel opens are tRRD_S apart, in one bank group tRRD_L; five take tFAW. Columns of
/// one bank group are tCCD_L apart. All of it in the order of time, not of requests.
pub fn commands_of_a_channel_are_apart() -> Result<(), Broken> {
    let table = Table::new()?;
    for seed in SEEDS {
        let ran = run(&table, seed, FLOOD_BITS)?;
        for (channel, opens) in by_channel(&table, &ran, |it| it == Command::Open) {
            let what = || format!("channel {channel}, seed {seed}");
            let in_one = apart(&opens, true, table.part.trrd_l);
            expect("trrd-l", in_one, what())?;
            let in_two = apart(&opens, false, table.part.trrd_s);
            expect("trrd-s", in_two, what())?;
            let five = opens
                .windows(5)
                .all(|it| it[4].0 >= it[0].0 + table.part.tfaw);
            expect("tfaw", five, what())?;
        }
        let columns = |it| matches!(it, Command::Read | Command::Write);
        for (channel, columns) in by_channel(&table, &ran, columns) {
            let kept = apart(&columns, true, table.part.tccd_l);
            expect("tccd-l", kept, format!("channel {channel}, seed {seed}"))?;
        }
    }
    Ok(())
}

/// Lines that follow each other take a burst each, since they are of different bank groups.
pub fn streams_are_as_fast_as_the_bus() -> Result<(), Broken> {
    let table = Table::new()?;
    let memory = Dram::new(table.part, LINES);
    let mut memory = memory.map_err(|error| ("part", format!("{error}")))?;
    let lines = table.count("row_bytes") / 64 * table.count("channels");
    let mut end = Ps::ZERO;
    for line in 0..lines {
        end = end.max(memory.read(Ps::ZERO, LineAddr(line)));
    }
    let first = ["controller_ns", "trcd_ns", "tcl_ns"].map(|key| table.time(key));
    let first = first.into_iter().fold(Ps::ZERO, |sum, it| sum + it);
    let bursts = table
        .time("tburst_ns")
        .times(lines / table.count("channels"));
    let what = format!("{end:?}, bus {bursts:?}");
    // The first line of each bank group opens a row.
    let most = first + table.part.trrd_s.times(table.count("bank_groups")) + bursts;
    expect("slow", end <= most, what)
}

/// Opening a row destroys what is in its cells. Before another one is opened it is written back, by
/// closing it or by a refresh; and each is counted once.
pub fn destroyed_rows_are_written_back_and_counted() -> Result<(), Broken> {
    every(|table, ran| {
        let (mut opens, mut closes, mut by_refresh, mut left) = (0, 0, 0, 0);
        for commands in by_bank(ran) {
            let mut open = None::<Ps>;
            for (command, at) in commands {
                match command {
                    Command::Open => {
                        if let Some(before) = open {
                            let written = refreshed(table, before, at);
                            let what = format!("a row open since {before:?} is lost at {at:?}");
                            expect("lost-row", written, what)?;
                            by_refresh += 1;
                        }
                        opens += 1;
                        open = Some(at);
                    }
                    Command::Close => {
                        expect(
                            "lost-row",
                            open.is_some(),
                            format!("none is open at {at:?}"),
                        )?;
                        closes += 1;
                        open = None;
                    }
                    _ => expect("lost-row", open.is_some(), format!("no row at {at:?}"))?,
                }
            }
            left += u64::from(open.is_some());
        }
        let kept = opens == closes + by_refresh + left && opens > REQUESTS / 2;
        let what = format!("{opens} opened; {closes} closed, {by_refresh} refreshed, {left} open");
        expect("lost-row", kept, what)?;
        let counted = ran.memory.energy(ran.until).activate_pj / table.count("activate_pj");
        let what = format!("{opens} rows were opened, {counted} are counted");
        expect("count", counted == opens, what)
    })
}

/// Each channel is refreshed once in each tREFI. Nothing is opened meanwhile, and no row is open
/// afterwards.
pub fn refresh_stops_a_channel_and_is_counted() -> Result<(), Broken> {
    every(|table, ran| {
        let (every, long) = (table.time("trefi_ns"), table.time("trfc_ns"));
        for (_, command, at) in &ran.log {
            let within = at.0 >= every.0 && at.0 % every.0 < long.0;
            let late = *command == Command::Open && within;
            expect("time", !late, format!("a row is opened at {at:?}"))?;
        }
        for commands in by_bank(ran) {
            let mut used = None::<Ps>;
            for (command, at) in commands {
                let opens = command == Command::Open;
                let stale = used.is_some_and(|used| refreshed(table, used + long, at));
                let kept = opens || command == Command::Close || !stale;
                expect("open-row", kept, format!("a row is still open at {at:?}"))?;
                used = opens.then_some(at).or(used);
            }
        }
        let rounds = ran.until.0 / every.0 * table.count("channels");
        let counted = ran.memory.energy(ran.until).refresh_pj / table.count("refresh_pj");
        let what = format!(
            "{rounds} refreshes until {:?}, {counted} counted",
            ran.until
        );
        expect("count", rounds > 0 && counted == rounds, what)
    })
}

/// Energy is conserved: each cause is its count times its price, and no request is without one.
pub fn energy_is_the_sum_of_what_was_done() -> Result<(), Broken> {
    every(|table, ran| {
        let energy = ran.memory.energy(ran.until);
        let counts = ran.memory.counts();
        let (reads, writes) = (counts.read.count, counts.write.count);
        expect(
            "requests",
            reads + writes == REQUESTS,
            format!("{reads} and {writes}"),
        )?;
        let column = |wanted| ran.log.iter().filter(|it| it.1 == wanted).count() as u64;
        let logged = (column(Command::Read), column(Command::Write));
        expect(
            "requests",
            logged == (reads, writes),
            format!("{logged:?} columns"),
        )?;
        let due = [
            (energy.read_pj, reads * table.count("read_pj")),
            (energy.write_pj, writes * table.count("write_pj")),
            (
                energy.activate_pj,
                column(Command::Open) * table.count("activate_pj"),
            ),
        ];
        for (has, due) in due {
            expect("price", has == due, format!("{has} pJ, not {due}"))?;
        }
        let parts =
            energy.background_pj + energy.refresh_pj + due.iter().map(|it| it.1).sum::<u64>();
        let total = energy.total_pj();
        expect("price", total == parts, format!("{total} pJ, not {parts}"))
    })
}

/// Each rule, by the promise that planted bugs name.
pub const DRAM_RULES: [(&str, Rule); 6] = [
    ("dram-gates", gates_are_kept),
    ("dram-apart", commands_of_a_channel_are_apart),
    ("dram-streams", streams_are_as_fast_as_the_bus),
    ("dram-rows", destroyed_rows_are_written_back_and_counted),
    ("dram-refresh", refresh_stops_a_channel_and_is_counted),
    ("dram-energy", energy_is_the_sum_of_what_was_done),
];
