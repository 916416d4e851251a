// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-futex: do locks exclude, and does every wake-up arrive?
 *
 * Two pairs of threads play ping-pong by mutex and condition variable (a lost
 * wake-up stops them, a false one breaks the order), four threads raise one
 * counter under one mutex, and a ring of semaphores passes a token.
 * A pair without progress for STALL_NS of running time is a failure.
 */
#include "check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PAIRS 2
#define COUNTERS 4
#define RING 4
#define STALL_NS (20 * NS_PER_S)

struct pair {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int turn;
	bool over;
	uint64_t volleys;
	atomic_ullong seen;
};

struct player {
	struct pair *pair;
	int side;
	uint64_t volleys;
};

static struct pair pairs[PAIRS];
static struct player players[2 * PAIRS];
static pthread_mutex_t counter_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t counter;
static uint64_t counter_parts[COUNTERS];
static sem_t ring[RING];
static atomic_ullong tokens;
static int token_holders;
static atomic_bool stopping;

static void *play(void *arg)
{
	struct player *player = arg;
	struct pair *pair = player->pair;

	pthread_mutex_lock(&pair->mutex);
	for (;;) {
		while (pair->turn != player->side && !pair->over)
			pthread_cond_wait(&pair->changed, &pair->mutex);
		if (pair->over)
			break;
		if (pair->volleys % 2 != (uint64_t)player->side)
			check_fail("volley %llu is not of side %d",
				   (unsigned long long)pair->volleys,
				   player->side);
		pair->volleys++;
		player->volleys++;
		atomic_store(&pair->seen, pair->volleys);
		pair->turn = !pair->turn;
		if (atomic_load(&stopping))
			pair->over = true;
		pthread_cond_broadcast(&pair->changed);
	}
	pthread_mutex_unlock(&pair->mutex);
	return NULL;
}

static void *count(void *arg)
{
	uint64_t *part = arg;

	while (!atomic_load(&stopping)) {
		pthread_mutex_lock(&counter_mutex);
		counter++;
		pthread_mutex_unlock(&counter_mutex);
		++*part;
	}
	return NULL;
}

static void *pass(void *arg)
{
	long place = (long)arg;

	for (bool last = false; !last;) {
		while (sem_wait(&ring[place]))
			;
		if (__atomic_fetch_add(&token_holders, 1, __ATOMIC_SEQ_CST))
			check_fail("two threads hold the token");
		atomic_fetch_add(&tokens, 1);
		__atomic_fetch_sub(&token_holders, 1, __ATOMIC_SEQ_CST);
		/* Read with the token in hand, or it goes to one who left. */
		last = atomic_load(&stopping);
		sem_post(&ring[(place + 1) % RING]);
	}
	return NULL;
}

struct watch {
	uint64_t last;
	int64_t since_ns;
};

static void watch(struct watch *watch, uint64_t now, const char *what)
{
	int64_t now_ns = check_now_ns(CLOCK_MONOTONIC);

	if (now != watch->last || !watch->since_ns) {
		watch->last = now;
		watch->since_ns = now_ns;
	} else if (now_ns - watch->since_ns > STALL_NS) {
		check_fail("%s stands still at %llu: a wake-up was lost", what,
			   (unsigned long long)now);
	}
}

static void watch_all(void)
{
	struct watch pair_watch[PAIRS] = { 0 };
	struct watch ring_watch = { 0 };
	uint64_t volleys;

	do {
		volleys = 0;
		for (int i = 0; i < PAIRS; i++) {
			uint64_t seen = atomic_load(&pairs[i].seen);

			watch(&pair_watch[i], seen, "ping-pong");
			volleys += seen;
		}
		watch(&ring_watch, atomic_load(&tokens), "semaphore ring");
		if (check_asked())
			check_at("volleys=%llu tokens=%llu",
				 (unsigned long long)volleys,
				 atomic_load(&tokens));
		check_sleep_ns(20 * NS_PER_MS);
	} while (check_go_on(volleys));
}

int main(int argc, char **argv)
{
	unsigned long threads[2 * PAIRS + COUNTERS + RING];
	uint64_t sum = 0, volleys = 0;
	int n = 0;

	check_begin(argc, argv, NULL);
	for (long i = 0; i < RING; i++)
		sem_init(&ring[i], 0, i == 0);
	for (int i = 0; i < PAIRS; i++) {
		pthread_mutex_init(&pairs[i].mutex, NULL);
		pthread_cond_init(&pairs[i].changed, NULL);
		for (int side = 0; side < 2; side++) {
			players[n] = (struct player){ &pairs[i], side, 0 };
			threads[n] = check_thread(play, &players[n]);
			n++;
		}
	}
	for (int i = 0; i < COUNTERS; i++)
		threads[n++] = check_thread(count, &counter_parts[i]);
	for (long i = 0; i < RING; i++)
		threads[n++] = check_thread(pass, (void *)i);
	watch_all();
	atomic_store(&stopping, true);
	while (n)
		check_join(threads[--n]);
	for (int i = 0; i < PAIRS; i++) {
		volleys += pairs[i].volleys;
		if (pairs[i].volleys !=
		    players[2 * i].volleys + players[2 * i + 1].volleys)
			check_fail("volleys do not add up");
	}
	for (int i = 0; i < COUNTERS; i++)
		sum += counter_parts[i];
	if (sum != counter)
		check_fail("counter is %llu, its parts are %llu",
			   (unsigned long long)counter,
			   (unsigned long long)sum);
	return check_ok("volleys=%llu counter=%llu tokens=%llu",
			(unsigned long long)volleys,
			(unsigned long long)counter, atomic_load(&tokens));
}
