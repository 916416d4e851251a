// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Four threads under a deterministic scheduler that may switch at every store, flush and fence.

use nvheap::structures::{Queue, QueueHead};
use nvheap::testing::{Broken, Event, Plain, Recorder, Threads, Trial, Visit, verdict};
use nvheap::{FocStm, Heap, PPtr, Policy, Session, Tx};
use shuttle::thread;

use crate::found::must;

const THREADS: u64 = 4;
/// Transactions of each thread: enough that logs become full.
const EACH: u64 = 6;
const SUM: u64 = 1000;

/// Balances in four lines, then a counter per thread, each in its own line.
type Words = [u64; 64];

fn trial() -> Trial {
    Trial {
        bytes: 1 << 19,
        sessions: THREADS as u32 + 1,
        limits: Trial::limits(8, 1),
        seed: 7,
        threads: Threads {
            current: || shuttle::current::me().into(),
            step: thread::yield_now,
        },
        ..Trial::default()
    }
}

fn setup<P: Policy>(session: &mut Session<P, Recorder>) {
    let words = session
        .root_or::<Words>("words", |tx| {
            let mut words = [0; 64];
            words[0] = SUM;
            tx.alloc(words)
        })
        .unwrap();
    assert!(!words.is_null());
    session
        .root_or::<QueueHead<u64>>("queue", Queue::create)
        .unwrap();
}

fn word(words: PPtr<Words>, line: u64) -> PPtr<u64> {
    words.cast::<u64>().element(line * 8)
}

/// Transfers between balances; each also pushes its number and counts itself.
fn transfer(session: &mut Session<FocStm, Recorder>, thread: u64, number: u64) {
    let words: PPtr<Words> = session.root("words").unwrap();
    let queue = Queue::at(session.root::<QueueHead<u64>>("queue").unwrap());
    let (from, to) = (
        word(words, (thread + number) % 4),
        word(words, (thread + 1) % 4),
    );
    let counter = word(words, 4 + thread);
    session
        .run(|tx| {
            let mut sum: u64 = 0;
            for line in 0..4 {
                sum = sum.wrapping_add(tx.get(word(words, line))?);
            }
            if sum != SUM {
                let what = format!("a transaction sees balances of {sum}");
                must(Err(Broken::new(verdict::NOT_ISOLATED, what)))
            }
            let amount = tx.get(from)? / 2;
            let less = tx.get(from)? - amount;
            tx.set(from, less)?;
            let more = tx.get(to)? + amount;
            tx.set(to, more)?;
            let count = tx.get(counter)?;
            tx.set(counter, count + 1)?;
            queue.push(tx, thread * 100 + count)
        })
        .unwrap();
}

fn judge_transfers(heap: &Heap<FocStm, Plain>, visit: &Visit<'_, '_>) -> Result<(), Broken> {
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let words: PPtr<Words> = session.root("words").unwrap();
    let queue = Queue::at(session.root::<QueueHead<u64>>("queue").unwrap());
    let found = session.view(|tx| tx.get(words)).unwrap();
    let mut pushed = Vec::new();
    session
        .view(|tx| {
            let mut cursor = queue.iter();
            while let Some(value) = cursor.next(tx)? {
                pushed.push(value);
            }
            Ok(())
        })
        .unwrap();
    let sum: u64 = (0..4)
        .map(|line| found[line * 8])
        .fold(0, u64::wrapping_add);
    if sum != SUM {
        let what = format!("the sum of the balances is {sum}");
        return Err(Broken::new(verdict::NOT_ATOMIC, what));
    }
    for thread in 0..THREADS {
        let count = found[(4 + thread as usize) * 8];
        let returned = visit.marks.iter().filter(|mark| **mark == thread).count() as u64;
        let own: Vec<u64> = pushed
            .iter()
            .copied()
            .filter(|value| value / 100 == thread)
            .collect();
        let wanted: Vec<u64> = (0..count).map(|number| thread * 100 + number).collect();
        if own != wanted || !(returned..=returned + 1).contains(&count) {
            let what = format!("thread {thread}: {returned} returned, {count} counted, {own:?}");
            return Err(Broken::new(verdict::NOT_ATOMIC, what));
        }
    }
    let objects = heap.usage().objects;
    if objects != 2 + pushed.len() as u64 {
        let what = format!("{objects} objects for {} values", pushed.len());
        return Err(Broken::new(verdict::WRONG_OBJECTS, what));
    }
    Ok(())
}

/// Each thread has its own words, two that are always equal, and an object.
fn own_words<P: Policy>(session: &mut Session<P, Recorder>, thread: u64, number: u64) {
    let words: PPtr<Words> = session.root("words").unwrap();
    let (first, second) = (word(words, thread), word(words, 4 + thread));
    let object = first.element(1);
    session
        .run(|tx| {
            tx.will_set(&[first.range(), second.range(), object.range()])?;
            tx.set(first, number + 1)?;
            let old = tx.get(object)?;
            if old != 0 {
                tx.release(old)?;
            }
            let new = tx.alloc([thread, number])?;
            tx.set(object, new.offset())?;
            tx.set(second, number + 1)
        })
        .unwrap();
}

fn judge_own<P: Policy>(heap: &Heap<P, Plain>, visit: &Visit<'_, '_>) -> Result<(), Broken> {
    let mut session = heap.session().map_err(Broken::does_not_open)?;
    let words: PPtr<Words> = session.root("words").unwrap();
    let found = session.view(|tx| tx.get(words)).unwrap();
    let mut objects = 2;
    for thread in 0..THREADS {
        let (first, second) = (found[thread as usize * 8], found[(4 + thread as usize) * 8]);
        let returned = visit.marks.iter().filter(|mark| **mark == thread).count() as u64;
        // Thread 0's first word began with the sum of the balances.
        let begun = first == SUM && thread == 0 && second == 0;
        if (first != second && !begun) || !(returned..=returned + 1).contains(&second) {
            let what = format!("thread {thread}: {returned} returned, words {first} and {second}");
            return Err(Broken::new(verdict::NOT_ATOMIC, what));
        }
        objects += u64::from(found[thread as usize * 8 + 1] != 0);
    }
    let usage = heap.usage().objects;
    if usage == objects {
        Ok(())
    } else {
        let what = format!("{usage} objects, {objects} reachable");
        Err(Broken::new(verdict::WRONG_OBJECTS, what))
    }
}

/// One schedule: the threads, then every cut of their history.
fn schedule<P: Policy>(
    trial: Trial,
    work: fn(&mut Session<P, Recorder>, u64, u64),
    judge: fn(&Heap<P, Plain>, &Visit<'_, '_>) -> Result<(), Broken>,
) {
    let (heap, image) = trial.prepare::<P>(setup).unwrap();
    let workers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (mut session, recorder) = (heap.session().unwrap(), heap.pmem().clone());
            thread::spawn(move || {
                for number in 0..EACH {
                    work(&mut session, thread, number);
                    recorder.mark(thread);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let events: Vec<Event> = heap.pmem().take();
    let report = trial.judge::<P>(image, &events, &judge);
    must(report.failure.map_or(Ok(()), Err));
}

/// Transfers in `schedules` schedules.
pub fn transfers(schedules: usize) {
    let run = move || schedule::<FocStm>(trial(), transfer, judge_transfers);
    shuttle::check_random(run, schedules);
}

/// Words and objects of each thread in `schedules` schedules.
pub fn own<P: Policy>(schedules: usize) {
    let run = move || schedule::<P>(trial(), own_words::<P>, judge_own::<P>);
    shuttle::check_random(run, schedules);
}
