// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-vfork: a task in uninterruptible sleep.
 *
 * A thread that has called vfork() sleeps in state D until its child is gone.
 * The child lives for some time; another thread looks the state up. A Stop
 * that must wait for tasks to become freezable would have to wait for it.
 */
#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_LIVES_NS (200 * NS_PER_MS)

static atomic_int sleeper_tid;
static atomic_ullong rounds;
static atomic_bool stopping;

static void *sleep_in_vfork(void *arg)
{
	struct timespec life = { .tv_nsec = CHILD_LIVES_NS };

	(void)arg;
	atomic_store(&sleeper_tid, (int)syscall(SYS_gettid));
	while (!atomic_load(&stopping)) {
		int status;
		pid_t pid = vfork();

		if (pid < 0)
			check_fail_errno("vfork");
		if (!pid) {
			nanosleep(&life, NULL);
			_exit(42);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 42)
			check_fail("the child left with %#x", status);
		atomic_fetch_add(&rounds, 1);
	}
	return NULL;
}

static char state_of(int tid)
{
	char path[64], line[256];
	char state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (!file)
		check_fail_errno(path);
	if (fgets(line, sizeof(line), file)) {
		const char *after = strrchr(line, ')');

		if (after && after[1] == ' ')
			state = after[2];
	}
	fclose(file);
	return state;
}

int main(int argc, char **argv)
{
	unsigned long long looks = 0, uninterruptible = 0;
	unsigned long sleeper;

	check_begin(argc, argv, NULL);
	sleeper = check_thread(sleep_in_vfork, NULL);
	do {
		check_sleep_ns(20 * NS_PER_MS);
		if (atomic_load(&sleeper_tid)) {
			looks++;
			uninterruptible +=
				state_of(atomic_load(&sleeper_tid)) == 'D';
		}
		if (check_asked())
			check_at("rounds=%llu uninterruptible=%llu looks=%llu",
				 atomic_load(&rounds), uninterruptible, looks);
	} while (check_go_on(atomic_load(&rounds)));
	atomic_store(&stopping, true);
	check_join(sleeper);
	if (looks > 20 && uninterruptible < looks / 2)
		check_fail("in state D at %llu of %llu looks only",
			   uninterruptible, looks);
	return check_ok("rounds=%llu uninterruptible=%llu looks=%llu",
			atomic_load(&rounds), uninterruptible, looks);
}
