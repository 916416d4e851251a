/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A persistent heap: see nvheap(7). All functions but nvheap_why() return
 * 0 or more, or a negative errno; that one has the reason in words.
 */
#ifndef NVHEAP_H
#define NVHEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A region that is open, and a thread's session in it. */
struct nvheap;
struct nvheap_session;

enum nvheap_policy {
	NVHEAP_FOC_STM = 1,
	NVHEAP_FOC_UL = 2,
	NVHEAP_FOC_RL = 3,
	NVHEAP_FOF_STM = 4,
	NVHEAP_FOF_UL = 5,
};

/* Promises that the caller makes where the system makes none. */
#define NVHEAP_ASSUME_PERSISTENT 1u
#define NVHEAP_ASSUME_FLUSH_ON_FAIL 2u
/* For nvheap_create(): so many sessions, 1 to 448; 8 without it. */
#define NVHEAP_SESSIONS(number) ((unsigned int)(number) << 16)
/* Only for plain memory, below. */
#define NVHEAP_ACCEPT_UNCLOSED 4u
/* Make a region over what is in the file. */
#define NVHEAP_OVERWRITE 8u
/*
 * With flush on fail, if the platform's promise to save caches ends: a store ends the
 * process with SIGSEGV, instead of waiting until the promise returns.
 */
#define NVHEAP_FAULT_WHEN_WITHDRAWN 0x100u

/* An offset from the beginning of the region: the only pointer to persist. */
typedef uint64_t nvheap_ptr;

int nvheap_create(const char *path, uint64_t size_bytes,
		  enum nvheap_policy policy, unsigned int flags,
		  struct nvheap **ret_heap);
int nvheap_open(const char *path, unsigned int flags, struct nvheap **ret_heap);
int nvheap_close(struct nvheap *heap);
int nvheap_policy(const struct nvheap *heap);

int nvheap_session_new(struct nvheap *heap,
		       struct nvheap_session **ret_session);
int nvheap_session_delete(struct nvheap_session *session);

/*
 * A body returns 0 to commit or a negative number to abort. In it no other
 * transaction of its session can run, and no root be looked for: EBUSY.
 */
typedef int (*nvheap_body)(struct nvheap_session *tx, void *context);
int nvheap_run(struct nvheap_session *session, nvheap_body body, void *context);
int nvheap_view(struct nvheap_session *session, nvheap_body body,
		void *context);

/* Within a body. Sizes and offsets are multiples of 8. */
int nvheap_load(struct nvheap_session *tx, nvheap_ptr from, void *to,
		size_t size_bytes);
int nvheap_store(struct nvheap_session *tx, nvheap_ptr to, const void *from,
		 size_t size_bytes);
int nvheap_alloc(struct nvheap_session *tx, size_t size_bytes,
		 nvheap_ptr *ret_ptr);
int nvheap_free(struct nvheap_session *tx, nvheap_ptr ptr);

/* The root of that name; made and zeroed if there is none and size is not 0. */
int nvheap_root(struct nvheap_session *session, const char *name,
		size_t size_bytes, nvheap_ptr *ret_ptr);

/*
 * Words in allocated objects that look like addresses of volatile memory of
 * this process: pointers that dangle after a power failure. Calls `found` for
 * each and returns their number.
 */
typedef void (*nvheap_found)(nvheap_ptr object, uint64_t word, uint64_t address,
			     const char *mapping, void *context);
int nvheap_check_dangling(struct nvheap *heap, nvheap_found found,
			  void *context);

/*
 * Flush on fail: plain memory that outlives the process, where the platform
 * saves caches when the power fails. The region is mapped at the same address
 * each time, so pointers are addresses, and objects change by plain stores. No
 * transactions, no log: a region whose process died is refused with EUCLEAN.
 */
struct nvheap_fof;
/* A thread's allocator. */
struct nvheap_fof_local;

int nvheap_fof_create(const char *path, uint64_t size_bytes, unsigned int flags,
		      struct nvheap_fof **ret_region);
int nvheap_fof_open(const char *path, unsigned int flags,
		    struct nvheap_fof **ret_region);
int nvheap_fof_close(struct nvheap_fof *region);

int nvheap_fof_local_new(struct nvheap_fof *region,
			 struct nvheap_fof_local **ret_local);
int nvheap_fof_local_delete(struct nvheap_fof_local *local);

/* As malloc() and free(). Any thread may free what any thread allocated. */
int nvheap_fof_alloc(struct nvheap_fof_local *local, size_t size_bytes,
		     void **ret_at);
int nvheap_fof_free(struct nvheap_fof_local *local, void *at);

/* The address stored under a name, or a null pointer. */
int nvheap_fof_root(struct nvheap_fof *region, const char *name, void **ret_at);
int nvheap_fof_set_root(struct nvheap_fof *region, const char *name, void *at);

/*
 * Write all of it back once and refuse stores from then on, as caches are no
 * longer saved: a store waits for nvheap_fof_release(), or ends the process
 * with SIGSEGV.
 */
int nvheap_fof_hold(struct nvheap_fof *region, int stores_wait);
int nvheap_fof_release(struct nvheap_fof *region);

/* Why the last function of this thread failed. Valid until the next call. */
const char *nvheap_why(void);

#ifdef __cplusplus
}
#endif

#endif
