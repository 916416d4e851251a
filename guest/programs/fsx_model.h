/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What rem-fsx does to its file, and what the file is afterwards: both follow
 * from the seed alone, so a later boot can compute them again.
 */
#ifndef FSX_MODEL_H
#define FSX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FSX_BLOCK_BYTES 4096UL

enum fsx_kind {
	FSX_READ,
	FSX_MAPREAD,
	FSX_DIRECT_READ,
	FSX_WRITE,
	FSX_MAPWRITE, /* with flag: and msync */
	FSX_DSYNC,    /* a write to a file that is open with O_DSYNC */
	FSX_DIRECT,   /* a write with O_DIRECT */
	FSX_TRUNCATE,
	FSX_PUNCH,
	FSX_ALLOCATE, /* with flag: the size is kept */
	FSX_ZERO,     /* with flag: the size is kept */
	FSX_COPY,
	FSX_CLONE,
	FSX_COLLAPSE,
	FSX_INSERT,
	FSX_REOPEN,
	FSX_FORGET, /* the page cache drops what is clean */
	FSX_FSYNC,
	FSX_FDATASYNC,
	FSX_SYNCFS,
	FSX_KINDS
};

extern const char *const fsx_names[FSX_KINDS];

struct fsx_op {
	enum fsx_kind kind;
	bool flag;
	size_t at;
	size_t bytes;
	size_t from;   /* of a copy or clone */
	uint64_t fill; /* data of a write */
};

struct fsx_model {
	uint64_t seed;
	size_t most;		/* bytes that the file may have */
	bool lacks[FSX_KINDS];	/* what its file system does not have */
	unsigned char *content; /* zeros behind the size */
	size_t size;
	uint64_t done;	/* operations */
	bool must_sync; /* by the next one */
};

/* Bytes of the model that an operation may have changed. */
struct fsx_range {
	size_t start;
	size_t end;
};

void fsx_begin(struct fsx_model *model, uint64_t seed, size_t most,
	       const char *lacks);
/* The next operation, of a file as the model is now. */
struct fsx_op fsx_draw(const struct fsx_model *model);
/* The model after it; its data is @op.fill's (check_fill()). */
struct fsx_range fsx_apply(struct fsx_model *model, const struct fsx_op *op);
/* Whether all that was written before it is durable when it has ended. */
bool fsx_syncs_all(const struct fsx_op *op);
/* Whether what it changes itself is durable when it has ended. */
bool fsx_syncs_itself(const struct fsx_op *op);

#endif /* FSX_MODEL_H */
