// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The same table, with steps that read fewer entries: a quarter of the work between two ends. */
#define TABLE_READS 4
#define TABLE_NAME "table_short"
#include "table.c"
