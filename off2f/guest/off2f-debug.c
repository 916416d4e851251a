// SPDX-License-Identifier: Apache-2.0 OR MIT
// build: -no-pie
/*
 * A debugger and its program in one: the child calls a function three times;
 * the parent sets a breakpoint there, by ptrace, and counts. Meanwhile another
 * child runs the same text and must not meet a breakpoint.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 3

__attribute__((noinline)) int reached(int n)
{
	__asm__ volatile("");
	return n + 1;
}

static int child(void)
{
	int sum = 0;

	for (int n = 0; n < TIMES; n++)
		sum += reached(n);
	return sum;
}

static void fail(const char *what)
{
	fprintf(stderr, "off2f-debug: %s\n", what);
	exit(1);
}

/* Executes the instruction under the breakpoint, and restores it. */
static void step_over(pid_t pid, long word)
{
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	regs.rip = (unsigned long)&reached;
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_POKETEXT, pid, &reached, word);
	ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		fail("the single step failed");
	ptrace(PTRACE_POKETEXT, pid, &reached, (word & ~0xffL) | 0xcc);
}

int main(void)
{
	int status, hits = 0;
	pid_t pid, other;
	long word;

	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(child());
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		fail("the child does not stop");
	word = ptrace(PTRACE_PEEKTEXT, pid, &reached, 0);
	if (memcmp(&word, (void *)&reached, sizeof(word)))
		fail("the child's text differs from ours");
	if (ptrace(PTRACE_POKETEXT, pid, &reached, (word & ~0xffL) | 0xcc))
		fail("cannot set the breakpoint");
	other = fork();
	if (!other)
		_exit(child());
	if (waitpid(other, &status, 0) != other || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 6)
		fail("another process met the breakpoint");
	for (;;) {
		ptrace(PTRACE_CONT, pid, 0, 0);
		if (waitpid(pid, &status, 0) != pid)
			fail("waitpid");
		if (WIFEXITED(status))
			break;
		if (WSTOPSIG(status) != SIGTRAP)
			fail("another signal");
		hits++;
		step_over(pid, word);
	}
	if (hits != TIMES || WEXITSTATUS(status) != 6)
		fail("a call was missed");
	printf("ok %d\n", hits);
	return 0;
}
