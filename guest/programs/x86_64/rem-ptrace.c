// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-ptrace: a debugger at work, with a hardware watchpoint.
 *
 * A child raises a counter in memory; its parent, as its debugger, watches
 * that word through a debug register. The parent must be woken at each write,
 * once, with DR6 naming the watchpoint and the word one larger than before. A
 * lost debug register, or a single-step that is lost, breaks the count.
 */
#include "../check.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* DR7: local enable of 0; write, 8 bytes wide. */
#define DR7_WATCH_WRITE_8 (1UL | 1UL << 16 | 2UL << 18)
#define DEBUG_REGISTER(n) \
	(offsetof(struct user, u_debugreg) + (n) * sizeof(long))
/* After so many writes, some instructions are stepped one by one. */
#define STEP_EVERY 50
#define STEPS 20

static volatile uint64_t counter __attribute__((aligned(8)));

static _Noreturn void child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
	raise(SIGSTOP);
	for (;;) {
		counter++;
		for (volatile int i = 0; i < 1000; i++)
			;
	}
}

static void poke_debug(pid_t pid, size_t n, unsigned long value)
{
	if (ptrace(PTRACE_POKEUSER, pid, DEBUG_REGISTER(n), value))
		check_fail_errno("PTRACE_POKEUSER of a debug register");
}

static unsigned long peek_debug(pid_t pid, size_t n)
{
	long value;

	errno = 0;
	value = ptrace(PTRACE_PEEKUSER, pid, DEBUG_REGISTER(n), NULL);
	if (errno)
		check_fail_errno("PTRACE_PEEKUSER of a debug register");
	return (unsigned long)value;
}

static void wait_trap(pid_t pid)
{
	int status;
	pid_t got;

	do
		got = waitpid(pid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got != pid)
		check_fail_errno("waitpid");
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		check_fail("the child stopped with %#x, not SIGTRAP", status);
}

static unsigned long pc_of(pid_t pid)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &registers))
		check_fail_errno("PTRACE_GETREGS");
	return registers.rip;
}

/* Steps inside the delay loop: the program counter moves every time. */
static void step_some(pid_t pid)
{
	for (int i = 0; i < STEPS; i++) {
		unsigned long before = pc_of(pid);

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
			check_fail_errno("PTRACE_SINGLESTEP");
		wait_trap(pid);
		if (pc_of(pid) == before)
			check_fail("a single step did not move");
	}
}

static uint64_t next_write(pid_t pid, uint64_t writes)
{
	unsigned long dr6;
	long word;

	if (ptrace(PTRACE_CONT, pid, NULL, NULL))
		check_fail_errno("PTRACE_CONT");
	wait_trap(pid);
	dr6 = peek_debug(pid, 6);
	if (!(dr6 & 1))
		check_fail("trapped without the watchpoint: dr6 %#lx", dr6);
	poke_debug(pid, 6, 0);
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, pid, &counter, NULL);
	if (errno)
		check_fail_errno("PTRACE_PEEKDATA");
	if ((uint64_t)word != writes + 1)
		check_fail("the word is %ld after %llu writes", word,
			   (unsigned long long)writes + 1);
	if (peek_debug(pid, 0) != (unsigned long)&counter)
		check_fail("debug register 0 has changed");
	return writes + 1;
}

int main(int argc, char **argv)
{
	uint64_t writes = 0;
	int status;
	pid_t pid;

	check_begin(argc, argv, NULL);
	pid = fork();
	if (pid < 0)
		check_fail_errno("fork");
	if (!pid)
		child();
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    WSTOPSIG(status) != SIGSTOP)
		check_fail("the child did not start: %#x", status);
	poke_debug(pid, 0, (unsigned long)&counter);
	poke_debug(pid, 7, DR7_WATCH_WRITE_8);
	while (check_go_on(writes)) {
		writes = next_write(pid, writes);
		if (writes % STEP_EVERY == 0)
			step_some(pid);
		if (check_asked())
			check_at("writes=%llu", (unsigned long long)writes);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return check_ok("writes=%llu", (unsigned long long)writes);
}
