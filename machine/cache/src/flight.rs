// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines in flight from a core: written by a store that bypasses the caches, or sent by CLWB or
//! CLFLUSHOPT, with no fence since.
//!
//! They carry the bytes of the moment they were sent. A later write of the same line cancels an
//! older flight, since memory must never go back.

use crate::{Bytes, Cause, Core, Line};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) line: Line,
    pub(crate) bytes: Bytes,
    pub(crate) cause: Cause,
    ticket: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Flights {
    of_core: Vec<VecDeque<Flight>>,
    /// The ticket of the one valid flight of a line; 0 = none.
    ticket_of: Vec<u32>,
    last_ticket: u32,
    fill_buffers: usize,
}

impl Flights {
    pub(crate) fn new(cores: usize, lines: u32, fill_buffers: usize) -> Self {
        Self {
            of_core: vec![VecDeque::new(); cores],
            ticket_of: vec![0; lines as usize],
            last_ticket: 0,
            fill_buffers,
        }
    }

    pub(crate) fn holds(&self, line: Line) -> bool {
        self.ticket_of[line.index()] != 0
    }

    pub(crate) fn forget(&mut self, line: Line) {
        self.ticket_of[line.index()] = 0;
    }

    /// Sends a line; returns one that had to land because the core has no free buffer.
    pub(crate) fn send(
        &mut self,
        core: Core,
        line: Line,
        bytes: Bytes,
        cause: Cause,
    ) -> Option<Flight> {
        // Tickets repeat after 2^32 flights; the old ones have landed long before.
        self.last_ticket = self.last_ticket.checked_add(1).unwrap_or(1);
        let ticket = self.last_ticket;
        self.ticket_of[line.index()] = ticket;
        let own = &mut self.of_core[core.0];
        own.push_back(Flight {
            line,
            bytes,
            cause,
            ticket,
        });
        if own.len() <= self.fill_buffers {
            return None;
        }
        own.pop_front().and_then(|oldest| self.land(oldest))
    }

    fn land(&mut self, flight: Flight) -> Option<Flight> {
        let counts = self.ticket_of[flight.line.index()] == flight.ticket;
        counts.then(|| {
            self.forget(flight.line);
            flight
        })
    }

    /// Lands the oldest valid flight of a core.
    pub(crate) fn next(&mut self, core: Core) -> Option<Flight> {
        while let Some(oldest) = self.of_core[core.0].pop_front() {
            let landed = self.land(oldest);
            if landed.is_some() {
                return landed;
            }
        }
        None
    }
}
