// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk with a volatile write cache: which writes are on media for certain.
//!
//! A write is on media after the next flush. One past the cache (FUA) is on media at once; older
//! writes in the cache may come after it, and over it.

/// The writes that a flush has not covered, of any kind of description.
#[derive(Clone, Debug)]
pub struct WriteCache<W> {
    pending: Vec<(W, bool)>,
}

impl<W> Default for WriteCache<W> {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
        }
    }
}

impl<W: Copy> WriteCache<W> {
    /// A write, and whether it goes past the cache. `store` is called where media has it at once.
    pub fn write(&mut self, write: W, fua: bool, store: impl FnOnce(W)) {
        if fua {
            store(write);
        }
        if !fua || !self.pending.is_empty() {
            self.pending.push((write, fua));
        }
    }

    /// A flush: `store` is called for each pending write, in their order.
    pub fn flush(&mut self, mut store: impl FnMut(W)) {
        for (write, _) in self.pending.drain(..) {
            store(write);
        }
    }

    /// How many writes a cut may lose.
    #[must_use]
    pub fn forgettable(&self) -> usize {
        self.pending.iter().filter(|(_, fua)| !fua).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_stores_pending_writes_in_order() {
        let (mut cache, mut media) = (WriteCache::default(), Vec::new());
        cache.write(1, false, |_| unreachable!());
        cache.write(2, true, |write| media.push(write));
        cache.write(3, false, |_| unreachable!());
        assert_eq!((media.as_slice(), cache.forgettable()), (&[2][..], 2));
        cache.flush(|write| media.push(write));
        assert_eq!(
            (media.as_slice(), cache.forgettable()),
            (&[2, 1, 2, 3][..], 0)
        );
        cache.write(4, true, |write| media.push(write));
        cache.flush(|_| unreachable!());
    }
}
