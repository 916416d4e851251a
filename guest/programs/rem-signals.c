// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-signals: does each tick and each signal come exactly once?
 *
 * - A periodic POSIX timer and a periodic timerfd: expirations counted (with
 *   overruns) must equal the time that passed on CLOCK_MONOTONIC, which leaves
 *   out the time without power: a resumed machine owes no burst of ticks.
 * - One-shot timers, again and again: each fires once, and never early.
 * - Queued real-time signals with a number: each once, in order, handled on an
 *   alternate stack whose bounds are checked.
 * - ITIMER_REAL, _VIRTUAL and _PROF: they go on (their ticks may merge).
 */
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS (5 * NS_PER_MS)
#define ONE_SHOT_NS (7 * NS_PER_MS)
#define ITIMER_US 10000
#define ALTERNATE_STACK_BYTES (64 * 1024)
#define BURST_SIGNALS 32
/* The first tick is a period after the start, and the last may be half over. */
#define SLACK_TICKS 2
#define LAST_TICK_NS (30 * NS_PER_S)

static volatile sig_atomic_t itimer_ticks[3];
static atomic_llong timer_ticks;
static atomic_ullong signals_received;
static atomic_bool stopping;
static atomic_int one_shot_pending;
static atomic_llong one_shot_target_ns;
static atomic_ullong one_shots;
static timer_t periodic, one_shot;
static char alternate_stack[ALTERNATE_STACK_BYTES] __attribute__((aligned(64)));

static void on_itimer(int number)
{
	itimer_ticks[number == SIGALRM ? 0 : number == SIGVTALRM ? 1 : 2]++;
}

static void on_periodic(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	atomic_fetch_add(&timer_ticks, 1 + (long long)info->si_overrun);
}

static void on_one_shot(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_overrun)
		check_fail("one-shot timer with %d overruns", info->si_overrun);
	if (atomic_fetch_sub(&one_shot_pending, 1) != 1)
		check_fail("one-shot timer fired twice");
	if (check_now_ns(CLOCK_MONOTONIC) < atomic_load(&one_shot_target_ns))
		check_fail("one-shot timer fired early");
	atomic_fetch_add(&one_shots, 1);
}

static void on_queued(int number, siginfo_t *info, void *context)
{
	const char *here = __builtin_frame_address(0);
	unsigned long long expected = atomic_load(&signals_received);

	(void)number;
	(void)context;
	if (here < alternate_stack ||
	    here >= alternate_stack + sizeof(alternate_stack))
		check_fail("handler is not on the alternate stack");
	if ((unsigned int)info->si_value.sival_int !=
	    (unsigned int)(expected & 0x7fffffff))
		check_fail("queued signal %d, expected %llu",
			   info->si_value.sival_int, expected & 0x7fffffff);
	atomic_store(&signals_received, expected + 1);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *),
		   int flags)
{
	struct sigaction action = { .sa_sigaction = handler,
				    .sa_flags = SA_SIGINFO | SA_RESTART |
						flags };

	sigfillset(&action.sa_mask);
	if (sigaction(number, &action, NULL))
		check_fail_errno("sigaction");
}

static timer_t make_timer(int number)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = number };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		check_fail_errno("timer_create");
	return timer;
}

static struct itimerspec every(int64_t period_ns)
{
	struct timespec period = { .tv_sec = period_ns / NS_PER_S,
				   .tv_nsec = period_ns % NS_PER_S };

	return (struct itimerspec){ .it_value = period, .it_interval = period };
}

static void start_itimers(void)
{
	static const int which[3] = { ITIMER_REAL, ITIMER_VIRTUAL,
				      ITIMER_PROF };
	static const int number[3] = { SIGALRM, SIGVTALRM, SIGPROF };
	struct itimerval value = { .it_value = { .tv_usec = ITIMER_US },
				   .it_interval = { .tv_usec = ITIMER_US } };

	for (int i = 0; i < 3; i++) {
		struct sigaction action = { .sa_handler = on_itimer,
					    .sa_flags = SA_RESTART };

		sigaction(number[i], &action, NULL);
		if (setitimer(which[i], &value, NULL))
			check_fail_errno("setitimer");
	}
}

static void arm_one_shot(void)
{
	struct itimerspec value = { 0 };
	int64_t target_ns;

	if (atomic_load(&one_shot_pending))
		return;
	target_ns = check_now_ns(CLOCK_MONOTONIC) + ONE_SHOT_NS;
	atomic_store(&one_shot_target_ns, target_ns);
	atomic_store(&one_shot_pending, 1);
	value.it_value.tv_sec = target_ns / NS_PER_S;
	value.it_value.tv_nsec = target_ns % NS_PER_S;
	if (timer_settime(one_shot, TIMER_ABSTIME, &value, NULL))
		check_fail_errno("timer_settime");
}

/* Sends numbered signals in bursts: the handlers must not starve the timers. */
static void *send_signals(void *arg)
{
	unsigned long long sent = 0;

	(void)arg;
	while (!atomic_load(&stopping)) {
		union sigval value = { .sival_int = (int)(sent & 0x7fffffff) };

		if (sent - atomic_load(&signals_received) > BURST_SIGNALS) {
			check_sleep_ns(NS_PER_MS);
			continue;
		}
		if (!sigqueue(getpid(), SIGRTMIN + 2, value))
			sent++;
		else if (errno != EAGAIN)
			check_fail_errno("sigqueue");
	}
	for (int i = 0; i < LAST_TICK_NS / NS_PER_MS; i++) {
		if (atomic_load(&signals_received) == sent)
			return NULL;
		check_sleep_ns(NS_PER_MS);
	}
	check_fail("%llu signals sent, %llu received", sent,
		   atomic_load(&signals_received));
}

static uint64_t read_ticks(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t ticks = 0;

	if (poll(&ready, 1, 20) == 1 &&
	    read(fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		check_fail_errno("read of timerfd");
	return ticks;
}

/*
 * A timer's interrupt may be late on a CPU that the host does not run. The
 * tick that comes in the end counts all those before it (as overruns), so the
 * last look at a timer waits for one, however often signals end poll().
 */
static uint64_t last_ticks(int fd)
{
	int64_t until_ns = check_now_ns(CLOCK_MONOTONIC) + LAST_TICK_NS;
	uint64_t ticks;

	do {
		ticks = read_ticks(fd);
	} while (!ticks && check_now_ns(CLOCK_MONOTONIC) < until_ns);
	return ticks;
}

static void next_timer_tick(void)
{
	int64_t until_ns = check_now_ns(CLOCK_MONOTONIC) + LAST_TICK_NS;
	long long before = atomic_load(&timer_ticks);

	while (atomic_load(&timer_ticks) == before) {
		if (check_now_ns(CLOCK_MONOTONIC) > until_ns)
			check_fail("POSIX timer has stopped");
		check_sleep_ns(NS_PER_MS);
	}
}

/* @begin_ns: read before the timer was started. */
static void compare_ticks(const char *what, long long ticks, int64_t begin_ns)
{
	long long due = (check_now_ns(CLOCK_MONOTONIC) - begin_ns) / PERIOD_NS;

	/* Never more than the time that passed allows. */
	if (ticks > due + SLACK_TICKS)
		check_fail("%s: %lld ticks, %lld due", what, ticks, due);
}

/*
 * No tick is missing of those that were due when the last look began.
 * @started_ns: read after the timer was started. A program that the host does
 * not run in between begins its ticks later than @begin_ns, and owes none.
 */
static void final_ticks(const char *what, long long ticks, int64_t started_ns,
			int64_t look_ns)
{
	long long due = (look_ns - started_ns) / PERIOD_NS;

	if (ticks < due - SLACK_TICKS)
		check_fail("%s: %lld ticks, %lld due", what, ticks, due);
}

/* A last tick of each itimer shows that it still runs. */
static void itimers_go_on(void)
{
	volatile uint64_t spin = 0;

	for (int i = 0; i < 3; i++) {
		int64_t until_ns = check_now_ns(CLOCK_MONOTONIC) + LAST_TICK_NS;
		int before = itimer_ticks[i];

		while (itimer_ticks[i] == before) {
			spin++;
			if (check_now_ns(CLOCK_MONOTONIC) > until_ns)
				check_fail("itimer %d has stopped", i);
		}
	}
}

int main(int argc, char **argv)
{
	stack_t stack = { .ss_sp = alternate_stack,
			  .ss_size = sizeof(alternate_stack) };
	struct itimerspec period = every(PERIOD_NS);
	struct itimerspec off = { 0 };
	long long fd_ticks = 0;
	int64_t begin_ns, started_ns, look_ns;
	unsigned long sender;
	int fd;

	check_begin(argc, argv, NULL);
	if (sigaltstack(&stack, NULL))
		check_fail_errno("sigaltstack");
	handle(SIGRTMIN, on_periodic, 0);
	handle(SIGRTMIN + 1, on_one_shot, 0);
	handle(SIGRTMIN + 2, on_queued, SA_ONSTACK);
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (fd < 0)
		check_fail_errno("timerfd_create");
	periodic = make_timer(SIGRTMIN);
	one_shot = make_timer(SIGRTMIN + 1);
	start_itimers();
	begin_ns = check_now_ns(CLOCK_MONOTONIC);
	if (timer_settime(periodic, 0, &period, NULL) ||
	    timerfd_settime(fd, 0, &period, NULL))
		check_fail_errno("timer_settime");
	started_ns = check_now_ns(CLOCK_MONOTONIC);
	/* All signals but the itimers' stay with this thread. */
	sigset_t all, none;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &none);
	sender = check_thread(send_signals, NULL);
	pthread_sigmask(SIG_SETMASK, &none, NULL);

	while (check_go_on((uint64_t)fd_ticks)) {
		arm_one_shot();
		fd_ticks += (long long)read_ticks(fd);
		compare_ticks("timerfd", fd_ticks, begin_ns);
		compare_ticks("POSIX timer", atomic_load(&timer_ticks),
			      begin_ns);
		if (check_asked())
			check_at("ticks=%lld signals=%llu one_shots=%llu",
				 fd_ticks, atomic_load(&signals_received),
				 atomic_load(&one_shots));
	}
	itimers_go_on();
	look_ns = check_now_ns(CLOCK_MONOTONIC);
	fd_ticks += (long long)last_ticks(fd);
	compare_ticks("timerfd", fd_ticks, begin_ns);
	final_ticks("timerfd", fd_ticks, started_ns, look_ns);
	look_ns = check_now_ns(CLOCK_MONOTONIC);
	next_timer_tick();
	timer_settime(periodic, 0, &off, NULL);
	check_sleep_ns(NS_PER_MS);
	compare_ticks("POSIX timer", atomic_load(&timer_ticks), begin_ns);
	final_ticks("POSIX timer", atomic_load(&timer_ticks), started_ns,
		    look_ns);
	atomic_store(&stopping, true);
	check_join(sender);
	return check_ok("ticks=%lld signals=%llu one_shots=%llu", fd_ticks,
			atomic_load(&signals_received),
			atomic_load(&one_shots));
}
