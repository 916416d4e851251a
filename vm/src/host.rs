// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host: powers all guests on, waits for the supply, and saves them in the hold-up.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::budget::{self, MARGIN, Place, Request};
use crate::config::{Config, GuestConfig, Requests};
use crate::fence;
use crate::gate::Gate;
use crate::guest::{self, Guest, GuestError, Saved};
use crate::line;
use crate::lock::Lock;
use crate::qemu;
use crate::queue::Queue;
use crate::requests::GRACE;
use crate::supply::Wire;

const REHEARSAL_LIMIT: Duration = Duration::from_secs(10);
/// How long disks have to answer if the power does not go.
const PLANNED_GRACE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_secs(1);

/// What the loop waits for.
enum Event {
    /// A status of the supply: the wire has the newest one.
    Power,
    /// A question, and where its answer goes.
    Ask(Value, Sender<Value>),
    /// A guest behind its fence is up to date, in so many absences.
    UpToDate(usize, u32),
    /// Time has passed; the next one comes when this one is answered.
    Tick(Sender<()>),
    /// Save all, and end.
    End,
}

/// A guest and what is known of its saves.
struct Slot {
    guest: Guest,
    /// Until it stood still in the rehearsal, and until it was saved.
    stop: Duration,
    save: Duration,
    /// Why it cannot be saved, as its rehearsal found out.
    refused: Option<String>,
    state_bytes: u64,
    place: Place,
    last: Option<Result<Saved, String>>,
    /// How often it was away; its program asks for the last absence only.
    absences: Arc<AtomicU32>,
    is_fenced: bool,
}

impl Slot {
    fn new(guest: Guest) -> Self {
        Self {
            guest,
            stop: Duration::ZERO,
            save: Duration::MAX,
            refused: None,
            state_bytes: 0,
            place: Place {
                bound: Duration::MAX,
                admitted: false,
            },
            last: None,
            absences: Arc::default(),
            is_fenced: false,
        }
    }

    /// The guest is back: its clients come when its program says so.
    fn watch(&mut self, index: usize, away: Duration, to: &Sender<Event>) {
        let Some(fence) = self.guest.config.fence.clone() else {
            return;
        };
        self.is_fenced = true;
        let absence = self.absences.fetch_add(1, Ordering::Relaxed) + 1;
        let (absences, to) = (Arc::clone(&self.absences), to.clone());
        let name = self.guest.config.name.clone();
        thread::spawn(move || {
            let is_last = || absences.load(Ordering::Relaxed) == absence;
            if fence::wait(&fence, &name, away, is_last) {
                let _ = to.send(Event::UpToDate(index, absence));
            }
        });
    }

    fn let_clients_in(&mut self, absence: u32) {
        if absence == self.absences.load(Ordering::Relaxed) {
            match self.guest.let_clients_in(true) {
                Ok(()) => self.is_fenced = false,
                Err(error) => self.last = Some(Err(error.to_string())),
            }
        }
    }
}

/// All guests of a host.
pub struct Host {
    config: Config,
    slots: Vec<Slot>,
    failed: Vec<(String, String)>,
    wire: Wire,
    to: Sender<Event>,
    events: Receiver<Event>,
    /// Whether saves have been rehearsed; if not, all guests are saved.
    is_rehearsed: bool,
    /// When the power failed, if guests are saved for that.
    away_since: Option<Instant>,
    print: fn(&str),
    _only: Lock,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host of {} guests", self.slots.len())
    }
}

/// For a status; none of a time that is not known.
fn us(time: Duration) -> Option<u64> {
    u64::try_from(time.as_micros()).ok()
}

fn at_once() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A folder that no one else may enter.
fn private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(path),
    }
}

fn wire_of(config: &Config) -> PathBuf {
    let given = config.wire.clone();
    given.unwrap_or_else(|| config.folder.join("power.sock"))
}

/// The supply may speak: what it says is an event from now on.
fn listen(config: &Config, to: Sender<Event>) -> Result<Wire, String> {
    let path = wire_of(config);
    let (wire, powers) = line::open(&path, &config.folder.join("wire.sock"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    thread::spawn(move || {
        for _ in powers {
            let _ = to.send(Event::Power);
        }
    });
    Ok(wire)
}

/// Each guest in a thread of its own.
fn power_on(config: &Config, on: &guest::Host<'_>) -> Vec<Result<Guest, GuestError>> {
    let one = |guest: &GuestConfig| {
        let folder = config.folder.join(&guest.name);
        Guest::power_on(guest, &folder, on)
    };
    thread::scope(|scope| {
        let guests = config.guests.iter();
        let jobs: Vec<_> = guests.map(|guest| scope.spawn(|| one(guest))).collect();
        jobs.into_iter()
            .map(|job| {
                job.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

impl Host {
    /// Powers all guests on, and rehearses their saves. A guest that cannot run is left out.
    ///
    /// # Errors
    /// One line, if the host cannot be served at all.
    pub fn power_on(config: Config, print: fn(&str)) -> Result<Self, String> {
        let folder = config.folder.display().to_string();
        private(&config.folder).map_err(|error| format!("{folder}: {error}"))?;
        let only = Lock::take(&config.folder.join("host.lock"));
        let only = only.map_err(|error| format!("{folder}: {error}"))?;
        let version = qemu::version(&config.qemu)?;
        let (to, events) = channel();
        let wire = listen(&config, to.clone())?;
        let silence = Duration::from_millis(config.supply_wait_ms);
        let on = guest::Host {
            qemu: &config.qemu,
            version: &version,
            gate: Some(Gate::new(wire.clone(), silence, print)),
        };
        let found = power_on(&config, &on);
        let (mut slots, mut failed) = (Vec::new(), Vec::new());
        for (found, asked) in found.into_iter().zip(&config.guests) {
            match found {
                Ok(guest) => {
                    let boot = &guest.boot;
                    print(&format!(
                        "{}: {} in {:?}",
                        asked.name, boot.reason, boot.took
                    ));
                    slots.push(Slot::new(guest));
                }
                Err(error) => {
                    print(&format!("{}: not started: {error}", asked.name));
                    failed.push((asked.name.clone(), error.to_string()));
                }
            }
        }
        let mut host = Self {
            config,
            slots,
            failed,
            wire,
            to,
            events,
            is_rehearsed: false,
            away_since: None,
            print,
            _only: only,
        };
        host.admit();
        Ok(host)
    }

    /// Rehearses each save, and decides who is persistent; if the power fails already, after that.
    fn admit(&mut self) {
        if self.wire.is_failing() || self.is_rehearsed {
            return;
        }
        self.is_rehearsed = true;
        for slot in &mut self.slots {
            match slot.guest.rehearse(REHEARSAL_LIMIT) {
                Ok(rehearsed) => {
                    slot.stop = rehearsed.stop;
                    slot.save = rehearsed.saved.took;
                    slot.state_bytes = rehearsed.saved.state_bytes;
                }
                Err(error) => slot.refused = Some(error.to_string()),
            }
        }
        let requests: Vec<Request> = self
            .slots
            .iter()
            .map(|slot| Request {
                priority: slot.guest.config.priority,
                save: slot.save.saturating_sub(slot.stop),
            })
            .collect();
        let places = budget::admit(
            &requests,
            self.stand_still(),
            self.config.hold_up(),
            at_once(),
        );
        for (slot, place) in self.slots.iter_mut().zip(places) {
            slot.place = place;
            let name = &slot.guest.config.name;
            if let Some(why) = &slot.refused {
                (self.print)(&format!("{name}: NOT persistent: {why}"));
            } else if !place.admitted {
                (self.print)(&format!(
                    "{name}: NOT persistent: its save takes up to {:?} and the hold-up is {:?}",
                    place.bound,
                    self.config.hold_up()
                ));
            }
        }
    }

    /// Until all guests stand still that do so at all, from the drop of PWR_OK, at worst.
    fn stand_still(&self) -> Duration {
        let stops = self.slots.iter().map(|slot| slot.stop);
        stops.max().unwrap_or_default() * MARGIN + GRACE
    }

    /// All guests stop; those that are persistent, or all, are saved, the important ones first. One
    /// whose disks do not answer in time is not, and keeps no other.
    fn save(&mut self, began: Instant, all: bool) {
        let all_by = began + self.stand_still();
        let (grace, limit) = match (all, self.config.hold_up()) {
            (true, hold_up) => (PLANNED_GRACE, hold_up.max(REHEARSAL_LIMIT)),
            (false, hold_up) => (GRACE, hold_up),
        };
        // CPUs of guests take the host's: none runs while others are saved.
        for slot in &mut self.slots {
            let begun = slot.guest.begin_stop();
            slot.last = begun.err().map(|error| Err(error.to_string()));
        }
        let mut order: Vec<&mut Slot> = self.slots.iter_mut().collect();
        order.retain(|slot| slot.last.is_none() && (all || slot.place.admitted));
        order.sort_by_key(|slot| std::cmp::Reverse(slot.guest.config.priority));
        let queue = Queue::of(order.len());
        let queue = &queue;
        thread::scope(|scope| {
            for (rank, slot) in order.into_iter().enumerate() {
                scope.spawn(move || match slot.guest.end_stop(grace, began + limit) {
                    Ok(()) => queue.arrive(rank, Some(slot)),
                    Err(error) => {
                        slot.last = Some(Err(format!("not saved: {error}")));
                        queue.arrive(rank, None);
                    }
                });
            }
            for _ in 0..at_once() {
                scope.spawn(move || {
                    while let Some(slot) = queue.next(all_by) {
                        let saved = slot.guest.save(began, limit.max(REHEARSAL_LIMIT));
                        slot.last = Some(saved.map_err(|error| error.to_string()));
                    }
                });
            }
        });
    }

    /// Guests go on after a save, if the power did not go.
    fn go_on(&mut self, away: Duration) {
        let wire = &self.wire;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let shut = slot.guest.let_clients_in(false);
            let went_on = shut.and_then(|()| slot.guest.go_on(&|| wire.is_failing()));
            slot.last = went_on.as_ref().err().map(|error| Err(error.to_string()));
            // One whose disks have not answered goes on when they do.
            if matches!(&went_on, Ok(()) | Err(GuestError::Requests(_))) {
                slot.watch(index, away, &self.to);
            }
        }
    }

    fn try_again(&mut self) {
        let wire = &self.wire;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            match slot.guest.try_again(&|| wire.is_failing()) {
                Ok(false) => {}
                Ok(true) => {
                    slot.last = None;
                    slot.watch(index, slot.guest.boot.away, &self.to);
                }
                Err(error) => slot.last = Some(Err(error.to_string())),
            }
        }
    }

    fn status(&mut self) -> Value {
        let guests: Vec<Value> = self
            .slots
            .iter_mut()
            .map(|slot| {
                let runs = slot.guest.runs();
                let boot = &slot.guest.boot;
                let failed = match &slot.last {
                    Some(Err(error)) => Some(error.clone()),
                    _ => slot.refused.clone(),
                };
                json!({
                    "name": slot.guest.config.name,
                    "runs": runs,
                    "resumed": boot.resumed,
                    "reason": boot.reason,
                    "boot_us": us(boot.took),
                    "persistent": slot.place.admitted,
                    "in_place": slot.guest.is_in_place(),
                    "save_us": us(slot.save),
                    "state_bytes": slot.state_bytes,
                    "bound_us": us(slot.place.bound),
                    "bound_mj": self.config.energy_mj(slot.place.bound),
                    "fenced": slot.is_fenced,
                    "failed": failed,
                })
            })
            .collect();
        let failed: Vec<Value> = self
            .failed
            .iter()
            .map(|(name, why)| {
                json!({
                    "name": name,
                    "runs": false,
                    "resumed": false,
                    "reason": why,
                    "persistent": false,
                    "fenced": false,
                    "failed": why,
                })
            })
            .collect();
        let all = [guests, failed].concat();
        json!({"hold_up_us": us(self.config.hold_up()), "guests": all})
    }

    /// Serves until the host ends by [`ask`] `stop`, or all guests have ended after a drop of power.
    ///
    /// # Errors
    /// One line, if its sockets cannot be made.
    pub fn serve(mut self) -> Result<(), String> {
        let control = self.config.folder.join("control.sock");
        let failed = |error: io::Error| format!("{}: {error}", control.display());
        let listener = bind(&control).map_err(failed)?;
        let asked = self.to.clone();
        thread::spawn(move || answer_all(&listener, &asked));
        (self.print)(&format!("serving {}", wire_of(&self.config).display()));
        let waits = |slot: &Slot| slot.guest.config.requests != Requests::Complete;
        if self.slots.iter().any(waits) {
            let ticks = self.to.clone();
            thread::spawn(move || {
                let (done, is_done) = channel();
                while ticks.send(Event::Tick(done.clone())).is_ok() {
                    thread::sleep(TICK);
                    let _ = is_done.recv();
                }
            });
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.guest.goes_on() {
                slot.watch(index, slot.guest.boot.away, &self.to);
            }
        }
        self.run();
        Ok(())
    }

    /// The newest status counts: the power may have changed again while guests were saved.
    fn power_changed(&mut self) {
        if self.wire.is_failing() {
            let began = Instant::now();
            let is_first = self.away_since.is_none();
            if is_first {
                self.save(began, !self.is_rehearsed);
                self.away_since = Some(began);
            }
            // A supply that has power again would take it for the answer to its next drop.
            if self.wire.is_failing() {
                self.wire.stopped();
            }
            if is_first {
                (self.print)(&format!("saved in {:?}", began.elapsed()));
            }
        } else if let Some(since) = self.away_since.take() {
            self.go_on(since.elapsed());
            (self.print)("power is back: guests go on");
            self.admit();
        }
    }

    fn run(&mut self) {
        while let Ok(event) = self.events.recv() {
            match event {
                Event::Power => self.power_changed(),
                Event::Tick(done) => {
                    if self.away_since.is_none() && !self.wire.is_failing() {
                        self.try_again();
                    }
                    let _ = done.send(());
                }
                Event::UpToDate(index, absence) => self.slots[index].let_clients_in(absence),
                Event::Ask(question, answer) => {
                    let _ = answer.send(match question["do"].as_str() {
                        Some("status") => self.status(),
                        _ => json!({"error": "ask for status or stop"}),
                    });
                }
                Event::End => {
                    if let Some(since) = self.away_since.take() {
                        self.go_on(since.elapsed()); // for those that were not admitted
                    }
                    self.save(Instant::now(), true);
                    for slot in &mut self.slots {
                        slot.guest.quit();
                    }
                    return;
                }
            }
        }
    }
}

fn answer_all(listener: &UnixListener, to: &Sender<Event>) {
    for stream in listener.incoming().flatten() {
        let to = to.clone();
        thread::spawn(move || answer(stream, &to));
    }
}

fn answer(mut stream: UnixStream, to: &Sender<Event>) -> Option<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone().ok()?)
        .read_line(&mut line)
        .ok()?;
    let question: Value = serde_json::from_str(&line).unwrap_or_default();
    let text = if question["do"] == "stop" {
        to.send(Event::End).ok()?;
        json!({"stopping": true})
    } else {
        let (answer, from) = channel();
        to.send(Event::Ask(question, answer)).ok()?;
        from.recv().ok()?
    };
    writeln!(stream, "{text}").ok()
}

/// Asks a host that runs.
///
/// # Errors
/// One line, if none does.
pub fn ask(folder: &Path, what: &str) -> Result<Value, String> {
    let path: PathBuf = folder.join("control.sock");
    let failed = |error: io::Error| format!("{}: {error}: does the host run?", path.display());
    let mut stream = UnixStream::connect(&path).map_err(failed)?;
    writeln!(stream, "{}", json!({"do": what})).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .map_err(failed)?;
    serde_json::from_str(&line).map_err(|error| format!("{}: {error}", path.display()))
}
