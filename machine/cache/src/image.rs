// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two small memories, for examples, tests and estimates without a machine.

use crate::{Bytes, Cause, Line, Memory};

/// Coherent memory and media as two vectors, and the log of writes to media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What cores read.
    pub coherent: Vec<Bytes>,
    /// What survives power loss.
    pub media: Vec<Bytes>,
    /// Each write to media.
    pub log: Vec<(Line, Cause)>,
    /// Each line that the memory controller took before it wrote it.
    pub accepted: Vec<(Line, Cause)>,
}

impl Image {
    /// All zeros.
    #[must_use]
    pub fn new(lines: usize) -> Self {
        Self {
            coherent: vec![[0; 64]; lines],
            media: vec![[0; 64]; lines],
            log: Vec::new(),
            accepted: Vec::new(),
        }
    }
}

impl Memory for Image {
    fn coherent(&self, line: Line) -> Bytes {
        self.coherent[line.index()]
    }

    fn differs(&self, line: Line) -> bool {
        self.coherent[line.index()] != self.media[line.index()]
    }

    fn next_difference(&self, from: Line, end: Line) -> Option<Line> {
        (from.0..end.0).map(Line).find(|line| self.differs(*line))
    }

    fn accepted(&mut self, line: Line, _: &Bytes, cause: Cause) {
        self.accepted.push((line, cause));
    }

    fn write(&mut self, line: Line, bytes: &Bytes, cause: Cause) {
        self.media[line.index()] = *bytes;
        self.log.push((line, cause));
    }

    fn revert(&mut self, line: Line) {
        self.coherent[line.index()] = self.media[line.index()];
    }
}
