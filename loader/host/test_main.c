/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdarg.h>

#include "../core/crc32c.h"
#include "check.h"

#define SHOWN_MAX 20

unsigned long checks_done, checks_failed;

void check(_Bool ok, const char *file, int line, const char *format, ...)
{
	va_list list;

	checks_done++;
	if (ok)
		return;
	if (++checks_failed > SHOWN_MAX)
		return;
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

unsigned long check_random(unsigned long *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: loader-test FOLDER-OF-GOLDEN-BYTES\n");
		return 2;
	}
	test_crc32c();
	test_interval();
	test_ranges();
	test_answer();
	test_pwr();
	test_uart();
	test_acpi();
	test_linux();
	test_cmdline();
	test_memtype();
	test_fdt();
	test_riscv_image();
	test_pe();
	test_desc();
	test_boot_cpu();
	test_record();
	test_registry();
	test_text();
	test_trust();
	test_tpm();
	test_golden(argv[1]);
	fprintf(stderr, "%lu checks, %lu failed\n", checks_done, checks_failed);
	return checks_failed != 0;
}
