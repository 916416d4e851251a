/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts failed checks and prints them. */
#ifndef LOADER_CHECK_H
#define LOADER_CHECK_H

#include <stdio.h>

extern unsigned long checks_done, checks_failed;

#define CHECK(condition, ...) check(condition, __FILE__, __LINE__, __VA_ARGS__)

void check(_Bool ok, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The next number of a sequence (xorshift64), which is not 0 if @state was not. */
unsigned long check_random(unsigned long *state);

void test_crc32c(void);
void test_interval(void);
void test_ranges(void);
void test_answer(void);
void test_pwr(void);
void test_uart(void);
void test_acpi(void);
void test_linux(void);
void test_cmdline(void);
void test_memtype(void);
void test_fdt(void);
void test_riscv_image(void);
void test_pe(void);
void test_desc(void);
void test_boot_cpu(void);
void test_record(void);
void test_registry(void);
void test_text(void);
void test_trust(void);
void test_tpm(void);
void test_golden(const char *folder);

#endif /* LOADER_CHECK_H */
