// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Heaps whose policy is known at run time only.

use std::io;
use std::path::Path;

use heap::dangling::{Dangling, dangling, volatile_memory};
use heap::erased::AnySession;
use heap::{
    Error, FocRedo, FocStm, FocUndo, FofStm, FofUndo, Heap, Options, PolicyKind, policy_of,
};

macro_rules! any {
    ($($name:ident),*) => {
        /// An open region.
        #[derive(Debug)]
        pub enum AnyHeap { $($name(Heap<$name>),)* }

        impl AnyHeap {
            pub fn create(path: &Path, bytes: u64, kind: PolicyKind, options: &Options) -> Result<Self, Error> {
                match kind {
                    $(PolicyKind::$name => Heap::create(path, bytes, options).map(Self::$name),)*
                }
            }

            pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
                match policy_of(path)? {
                    $(PolicyKind::$name => Heap::open(path, options).map(Self::$name),)*
                }
            }

            pub fn kind(&self) -> PolicyKind {
                match self {
                    $(Self::$name(_) => PolicyKind::$name,)*
                }
            }

            pub fn session(&self) -> Result<AnySession, Error> {
                match self {
                    $(Self::$name(heap) => heap.session().map(AnySession::of),)*
                }
            }

            pub fn dangling(&self) -> io::Result<Vec<Dangling>> {
                match self {
                    $(Self::$name(heap) => {
                        let base = heap.base() as u64;
                        let memory = volatile_memory((base, base + heap.layout().size_bytes))?;
                        let word = |at: u64| heap.word(at);
                        Ok(dangling(&heap::fsck::objects(heap.layout(), &word), &word, &memory))
                    })*
                }
            }
        }
    };
}
any!(FocStm, FocUndo, FocRedo, FofStm, FofUndo);
