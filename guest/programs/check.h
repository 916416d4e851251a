/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What all self-checking guest programs share.
 *
 * Each program runs until SIGTERM, for --seconds S, or for --count N rounds,
 * whichever comes first, and then prints one line: "OK name key=value ...".
 * On the first wrong result it prints "FAIL name what" and exits with 1 at
 * once, so that a failure is not covered by what follows. SIGUSR1 makes it
 * print "AT name key=value ...": how far it is.
 *
 * Times are CLOCK_MONOTONIC, which does not count the time without power.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL

/*
 * Reads "--key value" pairs; @extra_options is a NULL-terminated list of keys
 * besides "seconds" and "count". Installs the handlers of SIGTERM and SIGUSR1.
 */
void check_begin(int argc, char **argv, const char *const *extra_options);
const char *check_option(const char *key, const char *otherwise);
uint64_t check_number(const char *key, uint64_t otherwise);

/* False when it is time to stop; @done_rounds is compared with --count. */
bool check_go_on(uint64_t done_rounds);
/* True once after each SIGUSR1. */
bool check_asked(void);

void check_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
int check_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void check_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* check_fail() with the text of errno. */
_Noreturn void check_fail_errno(const char *what);

int64_t check_now_ns(int clock);
void check_sleep_ns(int64_t duration_ns);

/* splitmix64: a good, seekable stream of numbers. */
uint64_t check_mix(uint64_t x);
void check_fill(void *to, size_t bytes, uint64_t seed);
bool check_is_filled(const void *from, size_t bytes, uint64_t seed);
/* CRC-32 of IEEE 802.3, as zlib's crc32(): the host's peer has it, too. */
uint32_t check_crc32(const void *from, size_t bytes);

/* Whole transfers; false at end of file, check_fail() on an error. */
bool check_read(int fd, void *to, size_t bytes);
void check_write(int fd, const void *from, size_t bytes);

/* Starts a thread of 64 KiB stack, blocked for SIGTERM and SIGUSR1. */
unsigned long check_thread(void *(*run)(void *), void *arg);
void check_join(unsigned long thread);

#endif /* CHECK_H */
