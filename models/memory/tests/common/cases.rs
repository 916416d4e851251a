// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short runs that end with a cut at each moment that matters.

use super::{Broken, LINES, controller};
use ocpmem::oc::Oc;
use ocpmem::units::{LineAddr, Ps};

/// Regions, and writes between exchanges.
pub const LEVELERS: [(u32, u32); 4] = [(1, 0), (4, 0), (1, 2), (4, 3)];

/// Two cuts, each in the middle of a write of the same line, at every pair of moments that
/// matter: what is read is one of the last two writes. The first leaves pieces of two ages, the second
/// would leave three.
pub fn line_cut_twice_is_one_of_its_writes() -> Result<u32, Broken> {
    let psm = controller(1, 0, |_| {});
    let mut oc = Oc::new(psm, false).unwrap();
    let line = LineAddr(3);
    oc.write(Ps::ZERO, line, &[1; 64]);
    let now = oc.flush(Ps(1));
    oc.write(now, line, &[2; 64]);
    oc.flush(now + Ps(1));
    let mut cuts = 0;
    for first in around(&oc.moments()) {
        let (mut once, _) = oc.clone().cut(first);
        let (now, read) = once.read(Ps::ZERO, line);
        let contained = || Broken::new("contained", format!("cut at {first:?}: {read:?}"));
        let kept = read.line().ok_or_else(contained)?;
        once.write(now, line, &[3; 64]);
        once.flush(now + Ps(1));
        for second in around(&once.moments()) {
            let (mut twice, _) = once.clone().cut(second);
            let (_, read) = twice.read(Ps::ZERO, line);
            let fits = read.line().is_some_and(|it| it == [3; 64] || it == kept);
            if !fits || (kept != [1; 64] && kept != [2; 64]) {
                let what = format!("cuts at {first:?} and {second:?}: {read:?}");
                return Err(Broken::new("lost-write", what));
            }
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// Each moment, and the picosecond before it.
fn around(moments: &[Ps]) -> Vec<Ps> {
    let before = |at: &Ps| [Ps(at.0.saturating_sub(1)), *at];
    moments.iter().flat_map(before).collect()
}

/// After the reset port a line is zeros, and what is written then is found after a cut, wherever gaps
/// and pointer were before.
pub fn reset_begins_a_new_life() -> Result<(), Broken> {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |_| {});
        let mut oc = Oc::new(psm, false).unwrap();
        let mut now = Ps::ZERO;
        for number in 0..100 {
            now = oc.write(now, LineAddr(number % LINES), &[9; 64]);
        }
        now = oc.reset(now);
        now = oc.write(now, LineAddr(3), &[4; 64]);
        now = oc.flush(now);
        let (mut after, _) = oc.cut(now);
        for number in 0..LINES {
            let expected = if number == 3 { [4; 64] } else { [0; 64] };
            let (_, read) = after.read(Ps::ZERO, LineAddr(number));
            if read.line() != Some(expected) {
                let what = format!("{regions} {swap}: line {number}: {read:?}");
                return Err(Broken::new("lost-write", what));
            }
        }
    }
    Ok(())
}

/// Seed, epoch, pointer, and start and gap of every region after a cut are those before it, when the
/// flush port has waited for the journal.
pub fn registers_are_recovered() -> Result<(), Broken> {
    for (regions, swap) in LEVELERS {
        let psm = controller(regions, swap, |_| {});
        let mut oc = Oc::new(psm, false).unwrap();
        let mut now = Ps::ZERO;
        for number in 0..200 {
            now = oc.write(now, LineAddr(number * 5 % LINES), &[7; 64]);
            let mut stopped = oc.clone();
            let end = stopped.flush(now);
            let before = stopped.psm().leveler().clone();
            let (after, found) = stopped.cut(end);
            let after = after.psm().leveler();
            let registers = |it: &ocpmem::startgap::Leveler| {
                let places = (0..regions).map(|n| (it.region(n).start, it.region(n).gap));
                (places.collect::<Vec<_>>(), it.epoch(), it.config().seed)
            };
            if registers(&before) != registers(after) || found.swap_completed {
                let what = format!("{regions} {swap}, write {number}: {found:?}");
                return Err(Broken::new("wrong-registers", what));
            }
        }
    }
    Ok(())
}
