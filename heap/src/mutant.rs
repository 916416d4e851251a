// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Planted bugs. Each must be found by the crash tests, or these are no proof.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A bug that a test can switch on in the recording back end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name,)*];
        }
    };
}

mutants! {
    /// A commit returns without waiting for its record.
    SkipCommitFence,
    /// Data are changed before the record of the change is durable.
    ApplyBeforeFence,
    /// Undo records are not waited for before data change.
    SkipUndoFence,
    /// Words of the log do not say which pass wrote them.
    NoTornBit,
    /// The first line of a record says that it is the last.
    CommitInFirstLine,
    /// A checkpoint forgets the log without writing data back.
    SkipCheckpointFlush,
    /// A checkpoint does not wait for the data it wrote back.
    SkipCheckpointFence,
    /// A log that begins anew forgets the records that are not yet written, too.
    TruncateFirst,
    /// An undo record that a checkpoint meets is forgotten with the committed ones.
    ForgetOpenUndo,
    /// Redo records are applied log by log instead of in the order of commits.
    ReplayByLog,
    /// An abort restores data and leaves its undo records valid.
    AbortWithoutRecord,
    /// A freed object is given out again before the free is durable.
    ReuseBeforeCommit,
    /// An allocation is not in the record.
    AllocNotLogged,
    /// A free is not in the record.
    FreeNotLogged,
    /// Old records are replayed over memory that was later written past the log.
    IgnoreDirect,
    /// Data written past the log are not waited for before the commit.
    SkipDirectFence,
    /// Recovery forgets the log before what it applied is durable.
    RecoveryWithoutFlush,
    /// Recovery leaves torn lines in the log.
    KeepTornLines,
    /// A new slab's map is cleared past the log.
    SlabMapNotLogged,
    /// Transactions do not look whether what they read has changed.
    SkipValidation,
    /// Words that the undo log has no room for stay with the transaction that is undone.
    KeepRefused,
    /// Locks are released before the record is durable.
    UnlockBeforeFence,
}
