/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which planted bug this boot has: the front end's file FRONT_MUTANT. */
#include "mutant.h"

#define NAME_BYTES_MAX 32

bool mutant(const struct front *front, const char *name)
{
	char asked[NAME_BYTES_MAX] = { 0 };
	u32 bytes;
	u32 i = 0;

	if (!front->size(FRONT_MUTANT, &bytes) || bytes >= sizeof(asked) ||
	    !front->read(FRONT_MUTANT, 0, asked, bytes))
		return false;
	while (asked[i] && asked[i] == name[i])
		i++;
	return asked[i] == name[i];
}
