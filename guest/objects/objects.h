/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects that refer to each other, in three builds of one source:
 *
 * - plain: memory of malloc(); a reference is a pointer.
 * - OBJECTS: memory of libpmemobj; a reference is a PMEMoid, which is
 *   translated where an object is visited. Only the library's allocations are
 *   durable.
 * - OBJECTS and TRANSACTIONS: also, each operation that changes objects is a
 *   transaction of libpmemobj, and says what it is about to change.
 *
 * Rule of the works: an object is translated once for each visit of a function.
 */
#ifndef OBJECTS_H
#define OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A wrong result, or no memory: says so and ends the program. */
_Noreturn void objects_fail(const char *what);

#ifdef OBJECTS

#include <libpmemobj.h>

typedef PMEMoid object;

extern PMEMobjpool *objects_pool;
/* The first objects are made outside of transactions. */
extern bool objects_setting_up;

#define NOTHING OID_NULL

static inline void *at(object it)
{
	return pmemobj_direct(it);
}

static inline bool is_nothing(object it)
{
	return OID_IS_NULL(it);
}

object objects_make(size_t bytes);
void objects_drop(object it);

#else

#include <stdlib.h>

typedef void *object;

#define NOTHING NULL

static inline void *at(object it)
{
	return it;
}

static inline bool is_nothing(object it)
{
	return !it;
}

static inline object objects_make(size_t bytes)
{
	object made = malloc(bytes);

	if (!made)
		objects_fail("memory");
	return made;
}

static inline void objects_drop(object it)
{
	free(it);
}

#endif

#ifdef TRANSACTIONS

/* What is there now is about to be changed. */
static inline void about_to_change(void *where, size_t bytes)
{
	if (!objects_setting_up && pmemobj_tx_add_range_direct(where, bytes))
		objects_fail("a range of a transaction");
}

/* A call that changes objects; all of it, or nothing. */
#define OPERATION(call)                                \
	do {                                           \
		if (objects_setting_up) {              \
			call;                          \
			break;                         \
		}                                      \
		TX_BEGIN(objects_pool)                 \
		{                                      \
			call;                          \
		}                                      \
		TX_ONABORT                             \
		{                                      \
			objects_fail("a transaction"); \
		}                                      \
		TX_END                                 \
	} while (0)

#else

static inline void about_to_change(void *where, size_t bytes)
{
	(void)where;
	(void)bytes;
}

#define OPERATION(call) call

#endif

/*
 * What a program does besides its accesses, at the end of each operation: a
 * chain of multiplications and additions, without memory, of four instructions
 * a turn.
 */
#define OTHER_WORK_TURN 4
extern uint64_t other_work_turns;
extern volatile uint64_t other_work_result;

static inline void other_work(void)
{
	uint64_t value = 1;

	for (uint64_t turn = other_work_turns; turn; turn--) {
		value = value * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
		__asm__ volatile("" : "+r"(value));
	}
	other_work_result = value;
}

/* The program's first object, of so many bytes, all zero. */
object objects_root(size_t bytes);

/*
 * Of the work that is linked. Results depend on size and operations only, not
 * on the build.
 */
extern const char work_name[];
/* Makes objects of about so many bytes. */
void work_begin(size_t bytes);
/* So many operations more. */
void work_go_on(uint64_t operations);
/* Checks all results, or fails; a digest of them. */
uint64_t work_check(void);

/* splitmix64. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/*
 * One of so many, from random bits. Some come far more often than others: of
 * the first one, the next two, the next four and so on each group as often as
 * any other, which is about Zipf's law, as YCSB has it.
 */
static inline uint64_t skewed(uint64_t bits, uint64_t count)
{
	unsigned int groups = 64 - (unsigned int)__builtin_clzll(count);
	uint64_t first = (uint64_t)1 << (bits >> 48) % groups;

	return mix(first + (bits & (first - 1))) % count;
}

static inline uint64_t fold(uint64_t digest, uint64_t value)
{
	return mix(digest ^ value);
}

#endif /* OBJECTS_H */
