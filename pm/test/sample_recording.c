// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * pm-sample DIR [wrong]: writes the smallest recording that pm-judge can judge:
 * a region with nothing but the promise's segment, and one window in which an
 * operation returns that changed nothing. With "wrong" it promises what is not
 * there.
 */
#include <stdlib.h>

#include "../campaign/state.h"
#include "check.h"
#include "rem_recording.h"
#include "world.h"

#define PHYS 0x100000000ull

void check(bool ok, const char *file, int line, const char *format, ...)
{
	(void)format;
	if (ok)
		return;
	fprintf(stderr, "%s:%d: no region could be made\n", file, line);
	exit(4);
}

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file) {
		perror(path);
		exit(4);
	}
	return file;
}

static uint64_t digest_of(const struct rem_pm_segment *record)
{
	struct promise_segment head = state_head(record);

	return promise_head(promise_mix(1, 0), &head);
}

static void window(FILE *file, bool begins)
{
	struct rem_rec_event event = { .kind = REM_REC_WINDOW, .aux = begins };

	fwrite(&event, sizeof(event), 1, file);
}

static void store(FILE *file, rem_u64 address, rem_u64 value)
{
	const rem_u64 payload[] = { address, value };
	struct rem_rec_event event = { .kind = REM_REC_STORE,
				       .payload_bytes = sizeof(payload) };

	fwrite(&event, sizeof(event), 1, file);
	fwrite(payload, sizeof(payload), 1, file);
}

int main(int argc, char **argv)
{
	struct rem_rec_header header = {
		.magic = REM_REC_MAGIC,
		.version = REM_REC_VERSION,
		.header_bytes = sizeof(header),
		.line_bytes = REM_REC_LINE_BYTES,
		.nvram_phys = PHYS,
		.nvram_bytes = WORLD_BYTES,
	};
	struct promise promise = { .done = 0 };
	struct world world;
	rem_u64 address;
	rem_u32 slot;
	FILE *file;

	if (argc < 2) {
		fprintf(stderr, "pm-sample DIR [wrong]\n");
		return 2;
	}
	world_make(&world);
	slot = world_add(&world, PROMISE_NAME, PROMISE_BYTES, 1);
	promise.digest = digest_of(&world.region.entry[slot].record);
	memcpy(pm_segment_at(&world.region, slot), &promise, sizeof(promise));
	file = create(argv[1], "base.media");
	fwrite(world.env->memory, WORLD_BYTES, 1, file);
	fclose(file);
	address = PHYS + world.region.entry[slot].record.offset;
	file = create(argv[1], "recording.bin");
	fwrite(&header, sizeof(header), 1, file);
	window(file, true);
	store(file, address + offsetof(struct promise, digest),
	      promise.digest + (argc > 2));
	store(file, address + offsetof(struct promise, done), 1);
	window(file, false);
	fclose(file);
	printf("%#llx %d\n", PHYS, WORLD_BYTES);
	world_free(&world);
	return 0;
}
