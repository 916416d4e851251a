// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which planted bug this kernel has: `remanence.mutant=NAME`, or what is written
 * to /sys/module/remanence/parameters/mutant while it runs.
 */
#include <linux/moduleparam.h>
#include <linux/string.h>
#include "mutant.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static char rem_mutant_name[32];
module_param_string(mutant, rem_mutant_name, sizeof(rem_mutant_name), 0600);
MODULE_PARM_DESC(mutant, "the planted bug of this kernel");

/** rem_mutant - Return: whether this run has the bug @name. Context: any. */
bool rem_mutant(const char *name)
{
	return !strcmp(rem_mutant_name, name);
}
