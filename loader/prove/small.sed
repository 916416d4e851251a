# SPDX-License-Identifier: Apache-2.0 OR MIT
# The sizes of the proofs (sed -E): of tables, and of the gaps between the parts of a block.
s/(#define REM_CONSUMED_OFFSET) .*/\1 0x40/
s/(#define REM_COMMIT_OFFSET) .*/\1 0x80/
s/(#define REM_COMMIT_STRIDE_BYTES) .*/\1 0x40/
s/(#define REM_BODY_OFFSET) .*/\1 0x100/
s/(#define REM_BODY_STRIDE_BYTES) .*/\1 0x1c0/
s/(#define REM_TIMELINE_OFFSET) .*/\1 0x480/
s/(#define REM_TIMELINE_STRIDE_BYTES) .*/\1 0x80/
s/(#define REM_EVENTS_MAX) .*/\1 4/
s/(#define REM_DESC_ENTRIES_MAX) .*/\1 2/
