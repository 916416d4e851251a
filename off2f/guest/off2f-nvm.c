// SPDX-License-Identifier: Apache-2.0 OR MIT
// build: nvm_mapping
/*
 * Calls nvm_mapping() and prints its result: 1 and the first bytes there, or
 * 0 and errno's name. With a word, writes that first.
 *
 *   off2f-nvm PADDR VADDR PAGES [WORD]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvm_mapping.h"

int main(int argc, char **argv)
{
	char *at;

	if (argc < 4) {
		fprintf(stderr, "usage: off2f-nvm PADDR VADDR PAGES [WORD]\n");
		return 2;
	}
	at = (char *)strtoull(argv[2], NULL, 0);
	if (!nvm_mapping(strtoull(argv[1], NULL, 0), at,
			 strtoull(argv[3], NULL, 0))) {
		printf("0 %s\n", strerrorname_np(errno));
		return 1;
	}
	if (argc > 4)
		strcpy(at, argv[4]);
	printf("1 %.16s\n", at);
	return 0;
}
