// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A region of transactions with flush on fail, while the platform does not save caches. It becomes
//! read-only and is written back, logs included: a snapshot, which a recovery ends as it ends the
//! death of a process. A transaction that stores then waits, or ends the process, in the middle.

use std::sync::Arc;

use crate::error::Error;
use crate::fof::{Asked, Hold, Protected, Turn};
use crate::map::Mapping;
use crate::pmem::{LINE_BYTES, Native, Pmem};
use crate::promise::{self, Holder};

/// What is told of the promise, for an open region.
#[derive(Debug)]
pub struct Held {
    map: Mapping,
    protected: Protected,
    when_withdrawn: Hold,
}

impl Held {
    /// Follow the platform's promise from now on.
    ///
    /// # Safety
    /// [`Held::end`] is called before the mapping goes.
    pub unsafe fn begin(map: &Mapping, when_withdrawn: Hold) -> Arc<Self> {
        let held = Arc::new(Self {
            // SAFETY: as the caller says; what is done with it is of pages, not of objects.
            map: unsafe { map.lend() },
            protected: Protected::new(0..0),
            when_withdrawn,
        });
        let holder = Arc::downgrade(&held);
        promise::watch(Arc::as_ptr(&held).addr(), holder);
        held
    }

    /// Stores go on, whatever the platform does: the region is being closed, which writes it back.
    pub fn end(&self) {
        promise::unwatch(std::ptr::from_ref(self).addr());
        let mut asked = self.protected.asked();
        asked.platform = None;
        if self.follow(&mut asked).is_err() {
            std::process::abort();
        }
        self.protected.forget(&self.map);
    }

    fn follow(&self, asked: &mut Asked) -> Result<(), Error> {
        match asked.turn() {
            Turn::Stays => {}
            Turn::Begins(hold) => {
                self.protected.protect(&self.map, hold)?;
                self.write_back();
            }
            Turn::Other(hold) => self.protected.protect(&self.map, hold)?,
            Turn::Ends => self.protected.release(&self.map)?,
        }
        asked.done();
        Ok(())
    }

    fn write_back(&self) {
        let pm = Native::new();
        for line in (0..self.map.bytes()).step_by(LINE_BYTES) {
            // SAFETY: in the mapping.
            unsafe { pm.flush(self.map.base().wrapping_add(line)) };
        }
        pm.fence();
    }
}

impl Holder for Held {
    fn promise_is(&self, kept: bool) {
        let follow = |asked: &mut Asked| self.follow(asked);
        self.protected.promise_is(kept, self.when_withdrawn, follow);
    }
}
