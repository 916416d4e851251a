/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Between the files of pmadmin. */
#ifndef PMADMIN_H
#define PMADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "libpm.h"

enum {
	EXIT_DONE = 0,
	EXIT_DAMAGE = 1,
	EXIT_USAGE = 2,
	EXIT_FAILED = 4,
};

/* One line for people; EXIT_FAILED. */
int fail(const char *what, int err);

void show_status(const struct pm_ioc_status *is, bool json);
void show_segment(const struct pm_ioc_segment *is, bool json, bool first);

int list_lost(struct pm *pm, bool json);

/* A segment's whole content to a file, and back into a new segment. */
int export_segment(struct pm *pm, const char *name, const char *path);
int import_segment(struct pm *pm, const char *name, const char *path);

#endif /* PMADMIN_H */
