// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What all self-checking guest programs share; see check.h. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS_MAX 16
/* glibc adds its TLS to it; deep enough for printf with %s and %llu. */
#define THREAD_STACK_BYTES (64 * 1024)

static const char *name = "?";
static struct {
	const char *key;
	const char *value;
} options[OPTIONS_MAX];
static int options_count;
static int64_t end_ns;
static uint64_t end_rounds;
static atomic_bool told_to_stop;
static atomic_bool asked;

static void on_signal(int signal_number)
{
	if (signal_number == SIGUSR1)
		atomic_store(&asked, true);
	else
		atomic_store(&told_to_stop, true);
}

static _Noreturn void usage(const char *const *extra_options, const char *word)
{
	fprintf(stderr, "%s: what is %s? Known: --seconds S --count N", name,
		word);
	for (; extra_options && *extra_options; extra_options++)
		fprintf(stderr, " --%s X", *extra_options);
	fputc('\n', stderr);
	exit(2);
}

static bool is_known(const char *key, const char *const *extra_options)
{
	if (!strcmp(key, "seconds") || !strcmp(key, "count"))
		return true;
	for (; extra_options && *extra_options; extra_options++)
		if (!strcmp(key, *extra_options))
			return true;
	return false;
}

void check_begin(int argc, char **argv, const char *const *extra_options)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_RESTART };
	const char *slash = strrchr(argv[0], '/');
	uint64_t seconds;

	name = slash ? slash + 1 : argv[0];
	for (int i = 1; i < argc; i += 2) {
		if (strncmp(argv[i], "--", 2) || i + 1 == argc ||
		    options_count == OPTIONS_MAX ||
		    !is_known(argv[i] + 2, extra_options))
			usage(extra_options, argv[i]);
		options[options_count].key = argv[i] + 2;
		options[options_count++].value = argv[i + 1];
	}
	seconds = check_number("seconds", 0);
	end_ns = seconds ? check_now_ns(CLOCK_MONOTONIC) +
				   (int64_t)seconds * NS_PER_S :
			   INT64_MAX;
	end_rounds = check_number("count", 0);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

const char *check_option(const char *key, const char *otherwise)
{
	for (int i = 0; i < options_count; i++)
		if (!strcmp(options[i].key, key))
			return options[i].value;
	return otherwise;
}

uint64_t check_number(const char *key, uint64_t otherwise)
{
	const char *text = check_option(key, NULL);
	unsigned long long value;
	char *end;

	if (!text)
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || end == text || *text == '-') {
		fprintf(stderr, "%s: --%s %s is not a number\n", name, key,
			text);
		exit(2);
	}
	return value;
}

bool check_go_on(uint64_t done_rounds)
{
	if (atomic_load(&told_to_stop))
		return false;
	if (end_rounds && done_rounds >= end_rounds)
		return false;
	return end_ns == INT64_MAX || check_now_ns(CLOCK_MONOTONIC) < end_ns;
}

bool check_asked(void)
{
	return atomic_load_explicit(&asked, memory_order_relaxed) &&
	       atomic_exchange(&asked, false);
}

/* One write(2), so that lines of several threads do not mix. */
static void say(const char *word, const char *format, va_list args)
{
	char line[512];
	int used, more;

	used = snprintf(line, sizeof(line), "%s %s ", word, name);
	more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format,
			 args);
	if (more > (int)sizeof(line) - used - 2)
		more = (int)sizeof(line) - used - 2;
	used += more;
	line[used++] = '\n';
	if (write(STDOUT_FILENO, line, (size_t)used) != used)
		_exit(1);
}

void check_at(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("AT", format, args);
	va_end(args);
}

int check_ok(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("OK", format, args);
	va_end(args);
	return 0;
}

void check_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("FAIL", format, args);
	va_end(args);
	_exit(1);
}

void check_fail_errno(const char *what)
{
	check_fail("%s: %s", what, strerror(errno));
}

int64_t check_now_ns(int clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now))
		check_fail_errno("clock_gettime");
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void check_sleep_ns(int64_t duration_ns)
{
	struct timespec duration = { .tv_sec = duration_ns / NS_PER_S,
				     .tv_nsec = duration_ns % NS_PER_S };

	/* A signal may end it early: every caller loops anyway. */
	nanosleep(&duration, NULL);
}

uint64_t check_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

void check_fill(void *to, size_t bytes, uint64_t seed)
{
	unsigned char *at = to;

	for (uint64_t i = 0; bytes; i++) {
		uint64_t word = check_mix(seed + i);
		size_t part = bytes < sizeof(word) ? bytes : sizeof(word);

		memcpy(at, &word, part);
		at += part;
		bytes -= part;
	}
}

bool check_is_filled(const void *from, size_t bytes, uint64_t seed)
{
	const unsigned char *at = from;

	for (uint64_t i = 0; bytes; i++) {
		uint64_t word = check_mix(seed + i);
		size_t part = bytes < sizeof(word) ? bytes : sizeof(word);

		if (memcmp(at, &word, part))
			return false;
		at += part;
		bytes -= part;
	}
	return true;
}

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void make_crc_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
		crc_table[i] = crc;
	}
}

uint32_t check_crc32(const void *from, size_t bytes)
{
	const unsigned char *at = from;
	uint32_t crc = 0xffffffff;

	pthread_once(&crc_once, make_crc_table);
	while (bytes--)
		crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xff];
	return ~crc;
}

bool check_read(int fd, void *to, size_t bytes)
{
	char *at = to;

	while (bytes) {
		ssize_t got = read(fd, at, bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			check_fail_errno("read");
		if (!got && at != (char *)to)
			check_fail("end of file inside a message");
		if (!got)
			return false;
		at += got;
		bytes -= (size_t)got;
	}
	return true;
}

void check_write(int fd, const void *from, size_t bytes)
{
	const char *at = from;

	while (bytes) {
		ssize_t put = write(fd, at, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			check_fail_errno("write");
		at += put;
		bytes -= (size_t)put;
	}
}

unsigned long check_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attributes;
	sigset_t mask, old_mask;
	pthread_t thread;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &mask, &old_mask);
	err = pthread_create(&thread, &attributes, run, arg);
	pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
	pthread_attr_destroy(&attributes);
	if (err)
		check_fail("pthread_create: %s", strerror(err));
	return thread;
}

void check_join(unsigned long thread)
{
	int err = pthread_join(thread, NULL);

	if (err)
		check_fail("pthread_join: %s", strerror(err));
}
