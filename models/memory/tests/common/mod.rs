// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host that writes, reads and flushes, remembers what it may find after a cut, and checks it.

#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it in tests, which it does not take this for"
)]

pub mod cases;

use ocpmem::oc::Oc;
use ocpmem::parts::Part;
use ocpmem::psm::{PramPart, Psm, PsmConfig};
use ocpmem::startgap::WearConfig;
use ocpmem::units::{LineAddr, Ps, random};
use ocpmem::xcc::{Line, Read};

/// Lines of the memory: few, so that gaps and pointers come round.
pub const LINES: u64 = 32;

/// A controller whose gap moves at every third write and whose pairs are exchanged often.
pub fn controller(regions: u32, swap_writes: u32, change: impl Fn(&mut PsmConfig)) -> Psm {
    let part = PramPart::from_part(&Part::built_in("lpc-table1").unwrap()).unwrap();
    let wear = WearConfig {
        regions,
        swap_writes,
        threshold_writes: 3,
        ..WearConfig::paper(5)
    };
    let mut config = PsmConfig {
        wear,
        ..PsmConfig::lightpc()
    };
    change(&mut config);
    Psm::new(config, part, LINES).unwrap()
}

/// The host.
#[derive(Clone)]
pub struct Host {
    pub memory: Oc,
    pub now: Ps,
    /// Of each line, what it may be after a cut now: since the last flush.
    allowed: Vec<Vec<Line>>,
    state: u64,
    number: u64,
}

/// What a host saw that must not be: a name, which planted bugs refer to, and details.
pub struct Broken {
    pub verdict: &'static str,
    pub what: String,
}

impl Broken {
    pub fn new(verdict: &'static str, what: String) -> Self {
        Self { verdict, what }
    }
}

impl std::fmt::Debug for Broken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.verdict, self.what)
    }
}

impl Host {
    pub fn new(memory: Oc, seed: u64) -> Self {
        let allowed = vec![vec![[0; 64]]; usize::try_from(LINES).unwrap()];
        Self {
            memory,
            now: Ps::ZERO,
            allowed,
            state: seed,
            number: 0,
        }
    }

    fn dice(&mut self, limit: u64) -> u64 {
        random(&mut self.state) % limit
    }

    /// One request; half of them to four lines.
    pub fn step(&mut self) -> Result<(), Broken> {
        let line = if self.dice(2) == 0 {
            self.dice(4)
        } else {
            self.dice(LINES)
        };
        let index = usize::try_from(line).unwrap();
        self.now = self.now + Ps(self.dice(400_000));
        match self.dice(20) {
            0 => {
                self.now = self.memory.flush(self.now);
                for values in &mut self.allowed {
                    let last = values.pop().unwrap();
                    *values = vec![last];
                }
            }
            1..8 => {
                let (_, read) = self.memory.read(self.now, LineAddr(line));
                let expected = *self.allowed[index].last().unwrap();
                if read.line() != Some(expected) {
                    let what = format!("read of line {line} at {:?}: {read:?}", self.now);
                    return Err(Broken::new("wrong-read", what));
                }
            }
            _ => {
                self.number += 1;
                let mut data = [0; 64];
                data.iter_mut().enumerate().for_each(|(n, byte)| {
                    *byte = (self.number * 31 + n as u64 * 7 + line).to_le_bytes()[0];
                });
                data[..8].copy_from_slice(&self.number.to_le_bytes());
                let accepted = self.memory.write(self.now, LineAddr(line), &data);
                self.allowed[index].push(data);
                if !self.memory.psm().config().early_return {
                    // Accepted is on media: that is waited for, and older values are gone.
                    self.now = accepted;
                    self.allowed[index] = vec![data];
                }
            }
        }
        Ok(())
    }

    /// Cut at `at`, recover, and read every line.
    pub fn cut(mut self, at: Ps, containment_allowed: bool) -> Result<Self, Broken> {
        let (memory, found) = self.memory.cut(at);
        self.memory = memory;
        self.now = Ps::ZERO;
        if found.contained > 0 && !containment_allowed {
            return Err(Broken::new(
                "contained",
                format!("cut at {at:?}: {found:?}"),
            ));
        }
        for line in 0..LINES {
            let values = &mut self.allowed[usize::try_from(line).unwrap()];
            let (_, read) = self.memory.read(self.now, LineAddr(line));
            match read {
                Read::Contained if containment_allowed => {
                    // The machine gets an error; it writes the line again.
                    self.memory.write(self.now, LineAddr(line), &[1; 64]);
                    self.now = self.memory.flush(self.now);
                    *values = vec![[1; 64]];
                }
                _ => match read.line().filter(|it| values.contains(it)) {
                    Some(kept) => *values = vec![kept],
                    None => {
                        let what = format!("cut at {at:?}: line {line} is {read:?}");
                        return Err(Broken::new("lost-write", what));
                    }
                },
            }
        }
        Ok(self)
    }

    /// Every moment from now on at which what a cut leaves differs.
    pub fn moments(&self) -> Vec<Ps> {
        let mut all = vec![self.now];
        for at in self.memory.moments() {
            all.extend([Ps(at.0.saturating_sub(1)), at, at + Ps(1)]);
        }
        all.retain(|at| *at >= self.now);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Cut after every request of a run, at every moment that matters, and continue for a while after some.
pub fn campaign(
    psm: &Psm,
    second_code: bool,
    seed: u64,
    requests: u64,
    torn: bool,
) -> Result<u64, Broken> {
    let mut memory = Oc::new(psm.clone(), second_code).unwrap();
    memory.torn_pieces = torn;
    let mut host = Host::new(memory, seed);
    let mut cuts = 0;
    for number in 0..requests {
        host.step()?;
        let moments = host.moments();
        // Each moment, or of very many some, others after each request.
        let step = moments.len().div_ceil(24);
        for at in moments
            .into_iter()
            .skip(usize::try_from(number).unwrap() % step)
            .step_by(step)
        {
            let after = host.clone().cut(at, torn)?;
            cuts += 1;
            if cuts % 5 == 0 {
                again(after, torn)?;
            }
        }
        if number % 50 == 49 {
            let at = host.now;
            host = host.cut(at, torn)?;
        }
    }
    Ok(cuts)
}

/// A life after the cut, which ends with another, at one of some moments.
fn again(mut host: Host, torn: bool) -> Result<(), Broken> {
    for _ in 0..12 {
        host.step()?;
    }
    let moments = host.moments();
    for at in moments.iter().step_by(moments.len().div_ceil(6)) {
        host.clone().cut(*at, torn)?;
    }
    Ok(())
}
