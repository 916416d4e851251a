// SPDX-License-Identifier: Apache-2.0 OR MIT
// build: -static
/*
 * Runs a program to its end and prints its cost, one `name value` per line:
 * CPU time of the program alone, page faults, reads of the root disk; with -t,
 * in a separate run, pages of executable mappings by their kind of memory.
 *
 *   off2f-run [-t] PROGRAM [ARGUMENT...]     its output goes to /dev/null
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096UL

static void die(const char *what)
{
	fprintf(stderr, "off2f-run: %s: %s\n", what, strerror(errno));
	exit(4);
}

/* Reads and sectors so far of the disk of the root file system. */
static void disk(unsigned long long *reads, unsigned long long *sectors)
{
	FILE *file = fopen("/sys/dev/block/254:0/stat", "r");

	if (!file)
		file = fopen("/sys/block/vda/stat", "r");
	if (!file || fscanf(file, "%llu %*u %llu", reads, sectors) != 2)
		die("disk statistics");
	fclose(file);
}

/* Pages of a file's range that are in the page cache. */
static unsigned long cached(const char *path, unsigned long offset,
			    unsigned long bytes)
{
	unsigned long pages = bytes / PAGE_BYTES;
	unsigned char *in = calloc(pages, 1);
	unsigned long count = 0;
	int file = open(path, O_RDONLY);
	void *at;

	if (!in || file < 0)
		die(path);
	at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, (off_t)offset);
	if (at == MAP_FAILED || mincore(at, bytes, in))
		die(path);
	for (unsigned long i = 0; i < pages; i++)
		count += in[i] & 1;
	munmap(at, bytes);
	close(file);
	free(in);
	return count;
}

/* Prints pages of executable mappings, and those of them in the page cache. */
static void say_text(pid_t pid)
{
	char path[4096], line[4352], rights[8];
	unsigned long start, end, offset, all = 0, in_dram = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (!maps)
		die(path);
	while (fgets(line, sizeof(line), maps)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &start, &end,
			   rights, &offset, path) < 4 ||
		    rights[2] != 'x' || path[0] != '/')
			continue;
		all += (end - start) / PAGE_BYTES;
		in_dram += cached(path, offset, end - start);
	}
	fclose(maps);
	printf("text_pages %lu\ntext_dram_pages %lu\n", all, in_dram);
}

static void traced(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execv(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die(argv[0]);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT);
	for (int sig = 0;;) {
		if (ptrace(PTRACE_CONT, pid, 0, sig))
			die("ptrace");
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			die("waitpid");
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			break;
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	}
	say_text(pid);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	waitpid(pid, &status, 0);
}

static void measured(char **argv)
{
	unsigned long long reads, sectors, reads_after, sectors_after;
	struct timespec cpu;
	struct rusage usage;
	siginfo_t info;
	clockid_t clock;
	int status, null = open("/dev/null", O_WRONLY);
	pid_t pid;

	disk(&reads, &sectors);
	pid = vfork();
	if (pid < 0)
		die("vfork");
	if (!pid) {
		dup2(null, 1);
		execv(argv[0], argv);
		_exit(127);
	}
	/* Its clock can be read until it is waited for. */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) ||
	    clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &cpu) ||
	    wait4(pid, &status, 0, &usage) != pid)
		die(argv[0]);
	disk(&reads_after, &sectors_after);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 127) {
		errno = ENOEXEC;
		die(argv[0]);
	}
	printf("cpu_ns %lld\nminor_faults %ld\nmajor_faults %ld\n",
	       (long long)cpu.tv_sec * 1000000000 + cpu.tv_nsec,
	       usage.ru_minflt, usage.ru_majflt);
	printf("disk_reads %llu\ndisk_bytes %llu\n", reads_after - reads,
	       (sectors_after - sectors) * 512);
}

int main(int argc, char **argv)
{
	int text = argc > 1 && !strcmp(argv[1], "-t");

	if (argc < 2 + text) {
		fprintf(stderr,
			"usage: off2f-run [-t] PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	if (text)
		traced(argv + 2);
	else
		measured(argv + 1);
	return 0;
}
