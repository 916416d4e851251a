// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a test finds wrong, by a name that planted bugs refer to.

use std::fmt::{Display, Formatter, Result as Written};

use remanence_crash_states::Refused;

/// Names of what may be wrong with a state.
pub mod verdict {
    /// Recovery, or a session, refuses the region.
    pub const DOES_NOT_OPEN: &str = "does-not-open";
    /// The content is neither that before nor that after a transaction.
    pub const NOT_ATOMIC: &str = "not-atomic";
    /// An object's words do not belong together.
    pub const TORN_OBJECT: &str = "torn-object";
    /// Objects are allocated that nothing points to, or the other way round.
    pub const WRONG_OBJECTS: &str = "wrong-objects";
    /// Memory belongs to two objects.
    pub const OVERLAP: &str = "overlap";
    /// The checker finds damage.
    pub const DAMAGED: &str = "damaged";
    /// An answer that no order of the operations gives.
    pub const NOT_LINEARIZABLE: &str = "not-linearizable";
    /// A transaction saw a part of another one.
    pub const NOT_ISOLATED: &str = "not-isolated";
    /// A session waits for what only another one, which waits for it, would do.
    pub const BLOCKED: &str = "blocked";
    /// A store goes on that nobody would save.
    pub const NOT_HELD: &str = "not-held";
    /// Something that does not fit was taken.
    pub const NOT_REFUSED: &str = "not-refused";
    /// Something that fits was refused.
    pub const REFUSED: &str = "refused";
    /// Media hold what no cut can leave by the rules of [`crate::Pmem`].
    pub const IMPOSSIBLE_STATE: &str = "impossible-state";
    /// The test itself cannot look at all states, though it must.
    pub const TOO_MANY_STATES: &str = "too-many-states";
}

/// A promise of the heap that a state, or an answer, breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// One of [`verdict`].
    pub verdict: &'static str,
    /// For people.
    pub what: String,
}

impl Broken {
    /// From anything that can be printed.
    pub fn new(verdict: &'static str, what: impl Display) -> Self {
        let what = what.to_string();
        Self { verdict, what }
    }

    /// The region does not open, or a transaction in it ends with an error.
    pub fn does_not_open(what: impl Display) -> Self {
        Self::new(verdict::DOES_NOT_OPEN, what)
    }
}

/// What was wrong, with the place of the cut.
impl From<Refused<Self>> for Broken {
    fn from(refused: Refused<Self>) -> Self {
        let Refused {
            event,
            written,
            pick,
            what: Self { verdict, what },
        } = refused;
        let refused = Refused {
            event,
            written,
            pick,
            what,
        };
        Self::new(verdict, refused)
    }
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        write!(f, "{}: {}", self.verdict, self.what)
    }
}
