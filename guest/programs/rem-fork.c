// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-fork: a storm of fork, exec, exit and wait.
 *
 * Workers (processes) create children that leave with an exit code or by a
 * signal, some after an exec of this program; each must be waited for once,
 * with the status that its number says. A page that parent and child share by
 * copy-on-write is written by the child and must stay as it was in the parent.
 */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 3
#define COW_BYTES 16384

struct shared {
	atomic_ullong children[WORKERS];
	atomic_bool stopping;
};

static struct shared *shared;
static uint8_t cow[COW_BYTES];

static int code_of(uint64_t number)
{
	return (int)(check_mix(number) % 120);
}

static _Noreturn void child(uint64_t number)
{
	char code[16];

	if (!check_is_filled(cow, sizeof(cow), number))
		_exit(125);
	memset(cow, 0x5a, sizeof(cow));
	if (number % 5 == 0) {
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
	}
	if (number % 3 == 0) {
		snprintf(code, sizeof(code), "%d", code_of(number));
		execl("/proc/self/exe", "rem-fork", "--exit", code, NULL);
		_exit(126);
	}
	_exit(code_of(number));
}

static void check_status(int status, uint64_t number)
{
	if (number % 5 == 0) {
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
			check_fail("child %llu: status %#x, expected SIGTERM",
				   (unsigned long long)number, status);
	} else if (!WIFEXITED(status) ||
		   WEXITSTATUS(status) != code_of(number)) {
		check_fail("child %llu: status %#x, expected exit code %d",
			   (unsigned long long)number, status, code_of(number));
	}
}

static pid_t wait_for(pid_t pid, int *ret_status)
{
	pid_t got;

	do
		got = waitpid(pid, ret_status, 0);
	while (got < 0 && errno == EINTR);
	return got;
}

static _Noreturn void work(int worker)
{
	uint64_t number = (uint64_t)worker << 40;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; !atomic_load(&shared->stopping); number++) {
		int status;
		pid_t pid;

		check_fill(cow, sizeof(cow), number);
		pid = fork();
		if (pid < 0)
			check_fail_errno("fork");
		if (!pid)
			child(number);
		if (wait_for(pid, &status) != pid)
			check_fail_errno("waitpid");
		check_status(status, number);
		if (!check_is_filled(cow, sizeof(cow), number))
			check_fail("a child wrote into its parent's page");
		if (waitpid(-1, &status, WNOHANG) != -1 || errno != ECHILD)
			check_fail("a child is there after it was waited for");
		atomic_fetch_add(&shared->children[worker], 1);
	}
	_exit(0);
}

static unsigned long long total(void)
{
	unsigned long long sum = 0;

	for (int i = 0; i < WORKERS; i++)
		sum += atomic_load(&shared->children[i]);
	return sum;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "exit", NULL };
	pid_t workers[WORKERS];
	int status;

	check_begin(argc, argv, extra);
	if (check_option("exit", NULL))
		return (int)check_number("exit", 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		check_fail_errno("mmap");
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		if (workers[i] < 0)
			check_fail_errno("fork");
		if (!workers[i])
			work(i);
	}
	while (check_go_on(total())) {
		check_sleep_ns(20 * NS_PER_MS);
		if (check_asked())
			check_at("children=%llu", total());
		/* A worker that ended now has printed why. */
		if (waitpid(-1, &status, WNOHANG) > 0)
			_exit(1);
	}
	atomic_store(&shared->stopping, true);
	for (int i = 0; i < WORKERS; i++)
		if (wait_for(workers[i], &status) != workers[i] || status)
			_exit(1);
	return check_ok("children=%llu", total());
}
