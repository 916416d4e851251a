// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * init of the guest in which the fast paths of normal running are counted
 * (`rem bench fast-path`): system calls, and page faults of two kinds.
 *
 * It says COUNT and whether the kernel is armed for a Stop. Then it takes one
 * letter a line from the console, runs that loop at three lengths - once to
 * warm up, then COUNT and 2 * COUNT iterations - and says so. Before, between
 * and after the last two it passes the three addresses that the plugin counts
 * at. Between two of them it does nothing but the loop, so
 * that what the longer one takes more is what COUNT iterations take.
 *
 * COUNT is small, so that most runs end between two ticks of the timer.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT 8
#define STATE_BYTES 16

#define PAGE_BYTES 4096ul
/* The kernel maps up to so many pages of a file at one fault (fault-around). */
#define AROUND_BYTES (16 * PAGE_BYTES)
#define FILE_PATH "/touched"
#define FILE_BYTES (2 * COUNT * AROUND_BYTES)
/*
 * All pages are mapped below one page table, whose last page stays mapped: a
 * table that is allocated in a loop costs what the page allocator's free lists
 * have left since boot.
 */
#define TABLE_BYTES (512 * PAGE_BYTES)
#define MAP_AT ((void *)0x60000000ul)
#define KEPT_AT ((void *)((char *)MAP_AT + TABLE_BYTES - PAGE_BYTES))

static_assert(FILE_BYTES <= TABLE_BYTES - PAGE_BYTES, "more than one table");

/* Labels for the plugin, which takes the first passage of each. */
#define MARK(name) \
	asm volatile(".globl " #name "\n" #name ":\n\tnop" ::: "memory")

static int file;

static void die(const char *what)
{
	perror(what);
	for (;;)
		pause();
}

/*
 * Written out, so that an iteration is the same instructions in each build; the
 * second loop has exactly one more, which shows that one is seen.
 */
#define CALL_LOOP(extra)                                           \
	asm volatile("1:\tmov %[number], %%eax\n\tsyscall\n" extra \
		     "\tdec %[count]\n\tjnz 1b"                    \
		     : [count] "+r"(count)                         \
		     : [number] "i"(SYS_getppid)                   \
		     : "rax", "rcx", "r11", "cc", "memory")

static void call(unsigned int count)
{
	CALL_LOOP("");
}

static void call_and_one(unsigned int count)
{
	CALL_LOOP("\tnop\n");
}

/* Map, touch one byte in each @stride bytes, unmap. */
static void fault(unsigned int count, size_t stride, int flags, int from)
{
	size_t bytes = count * stride;
	volatile char *at = mmap(MAP_AT, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_FIXED_NOREPLACE | flags,
				 from, 0);

	if (at != MAP_AT)
		die("mmap");
	for (unsigned int i = 0; i < count; i++) {
		volatile char *byte = at + i * stride;

		if (from < 0)
			*byte = 1;
		else
			(void)*byte;
	}
	if (munmap(MAP_AT, bytes))
		die("munmap");
}

/* One code for all lengths: the compiler must not make one of its own for each. */
__attribute__((noipa)) static bool loop(char kind, unsigned int count)
{
	switch (kind) {
	case 's':
		call(count);
		return true;
	case 'x':
		call_and_one(count);
		return true;
	case 'a':
		fault(count, PAGE_BYTES, MAP_ANONYMOUS, -1);
		return true;
	case 'f':
		fault(count, AROUND_BYTES, 0, file);
		return true;
	default:
		return false;
	}
}

static void keep_table(void)
{
	volatile char *kept =
		mmap(KEPT_AT, PAGE_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS, -1, 0);

	if (kept != KEPT_AT)
		die("mmap");
	*kept = 1;
}

static void make_file(void)
{
	static const char page[PAGE_BYTES];

	file = open(FILE_PATH, O_CREAT | O_RDWR, 0600);
	if (file < 0)
		die(FILE_PATH);
	for (size_t at = 0; at < FILE_BYTES; at += PAGE_BYTES)
		if (write(file, page, sizeof(page)) != sizeof(page))
			die(FILE_PATH);
}

/* The first word of what the kernel says of its readiness for a Stop. */
static void read_state(char word[static STATE_BYTES])
{
	FILE *status;

	snprintf(word, STATE_BYTES, "unknown");
	if (mkdir("/sys", 0755) || mount("sysfs", "/sys", "sysfs", 0, NULL))
		die("/sys");
	status = fopen("/sys/kernel/remanence/status", "r");
	if (!status)
		return; /* a kernel without our patches */
	if (fscanf(status, "%15s", word) != 1)
		die("/sys/kernel/remanence/status");
	fclose(status);
}

int main(void)
{
	char state[STATE_BYTES];
	char line[16];

	setvbuf(stdout, NULL, _IONBF, 0);
	make_file();
	keep_table();
	read_state(state);
	printf("REM-FAST-PATH-READY %u %s\n", COUNT, state);
	while (fgets(line, sizeof(line), stdin)) {
		bool known = loop(line[0], 2 * COUNT);

		MARK(mark_begin);
		loop(line[0], COUNT);
		MARK(mark_middle);
		loop(line[0], 2 * COUNT);
		MARK(mark_end);
		printf("REM-FAST-PATH-%s %c\n", known ? "DONE" : "UNKNOWN",
		       line[0]);
	}
	die("console");
}
