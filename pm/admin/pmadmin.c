// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * pmadmin: the persistent memory of this machine, for people and scripts.
 * Exit status: 0 done, 1 damage was found, 2 wrong usage, 4 it could not be done.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmadmin.h"

struct options {
	bool json, yes;
	unsigned int mode, block_bytes, persist;
	uint64_t map_address;
};

int fail(const char *what, int err)
{
	const char *why = strerror(-err);

	if (err == -EBUSY)
		why = "it is in use: close its files, unmount its disk";
	else if (err == -EUCLEAN)
		why = "it is damaged beyond repair";
	else if (err == -EROFS)
		why = "a slot is damaged in all copies, so free space is not known: see pmadmin list";
	else if (err == -ENOENT)
		why = "there is no such segment, or the module is not loaded";
	fprintf(stderr, "pmadmin: %s: %s\n", what, why);
	return EXIT_FAILED;
}

/* 4096, 64K, 16M, 1G; false if it is none. */
static bool parse_bytes(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 0);
	const char *const units = "KMGT";
	const char *unit = *end ? strchr(units, *end) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;

	if (end == text || *text == '-' || (*end && !unit) ||
	    (unit && end[1]) || value << shift >> shift != value) {
		fprintf(stderr,
			"pmadmin: %s is no size: give a number, or one with K, M, G or T behind it\n",
			text);
		return false;
	}
	*ret = value << shift;
	return true;
}

static bool confirmed(const struct options *options, const char *what)
{
	char answer[8] = "";

	if (options->yes)
		return true;
	if (!isatty(STDIN_FILENO)) {
		fprintf(stderr, "pmadmin: %s: say --yes to do it unasked\n",
			what);
		return false;
	}
	fprintf(stderr, "%s? Its content will be gone. yes/no: ", what);
	return fgets(answer, sizeof(answer), stdin) && !strcmp(answer, "yes\n");
}

static int status(struct pm *pm, const struct options *options, bool checks)
{
	struct pm_ioc_status is;
	int err = checks ? pm_check(pm, &is) : pm_status(pm, &is);

	if (checks && err == -EUCLEAN) {
		fprintf(stderr,
			"pmadmin: check: media does not keep what is stored in the base segment: export what is needed, and replace it\n");
		return EXIT_DAMAGE;
	}
	if (err)
		return fail(checks ? "check" : "status", err);
	show_status(&is, options->json);
	return is.refused ? EXIT_DAMAGE : EXIT_DONE;
}

static int list(struct pm *pm, const struct options *options)
{
	struct pm_ioc_segment segment;
	uint32_t slot = 0;
	bool first = true;
	int err;

	if (options->json)
		printf("[");
	while (!(err = pm_next(pm, &slot, &segment))) {
		show_segment(&segment, options->json, first);
		first = false;
		slot++;
	}
	if (options->json)
		printf("]\n");
	return err == -ENOENT ? EXIT_DONE : fail("list", err);
}

static int create(struct pm *pm, const struct options *options,
		  const char *name, const char *size)
{
	struct pm_ioc_segment segment = {
		.slot = PM_SLOT_BY_NAME,
		.type = options->block_bytes ? PM_TYPE_BLOCK : PM_TYPE_RAW,
		.persist = options->persist,
		.mode = options->mode,
		.block_bytes = options->block_bytes,
		.map_address = options->map_address,
	};
	int err;

	if (strlen(name) >= PM_NAME_BYTES)
		return fail(name, -ENAMETOOLONG);
	strcpy(segment.name, name);
	if (!parse_bytes(size, (uint64_t *)&segment.bytes))
		return EXIT_USAGE;
	err = pm_create(pm, &segment);
	if (err == -EINVAL && options->block_bytes) {
		fprintf(stderr,
			"pmadmin: %s: give --block a power of two from 512 to 64K, a name of letters, digits and ._-, and a size\n",
			name);
		return EXIT_FAILED;
	}
	if (err == -EOPNOTSUPP && options->persist == PM_PERSIST_FOF) {
		fprintf(stderr,
			"pmadmin: %s: this platform does not promise that caches are written back when the power fails: leave --persist out\n",
			name);
		return EXIT_FAILED;
	}
	return err ? fail(name, err) : EXIT_DONE;
}

static int destroy(struct pm *pm, const struct options *options,
		   const char *name)
{
	char what[PM_NAME_BYTES + 32];
	int err;

	snprintf(what, sizeof(what), "destroy %.*s", PM_NAME_BYTES, name);
	if (!confirmed(options, what))
		return EXIT_USAGE;
	err = pm_destroy(pm, name);
	return err ? fail(name, err) : EXIT_DONE;
}

static int resize(struct pm *pm, const char *name, const char *size)
{
	uint64_t bytes;
	int err;

	if (!parse_bytes(size, &bytes))
		return EXIT_USAGE;
	err = pm_resize(pm, name, bytes, true);
	if (err == -EFBIG) {
		fprintf(stderr,
			"pmadmin: %s: blocks that were written have no place in that size\n",
			name);
		return EXIT_FAILED;
	}
	return err ? fail(name, err) : EXIT_DONE;
}

/* Of a slot that is damaged in all copies: nothing else can be done for it. */
static int repair(struct pm *pm, const struct options *options,
		  const char *slot)
{
	char what[64], *end;
	unsigned long number = strtoul(slot, &end, 10);
	int err;

	if (end == slot || *end || number > UINT32_MAX) {
		fprintf(stderr,
			"pmadmin: repair %s: give the slot's number, from pmadmin list\n",
			slot);
		return EXIT_USAGE;
	}
	snprintf(what, sizeof(what), "give up slot %lu", number);
	if (!confirmed(options, what))
		return EXIT_USAGE;
	err = pm_give_up(pm, (uint32_t)number);
	if (err == -ENOENT) {
		fprintf(stderr,
			"pmadmin: repair %lu: that slot is not refused: nothing was done\n",
			number);
		return EXIT_FAILED;
	}
	return err ? fail(what, err) : EXIT_DONE;
}

static int resize_region(struct pm *pm, const char *size)
{
	uint64_t bytes;
	int err;

	if (!parse_bytes(size, &bytes))
		return EXIT_USAGE;
	err = pm_resize_region(pm, bytes);
	if (err == -EFBIG || err == -ENOSPC) {
		fprintf(stderr, "pmadmin: resize-region: %s\n",
			err == -EFBIG ?
				"it would cut off a segment" :
				"there is no memory for it behind the region: see limit_bytes of pmadmin --json status");
		return EXIT_FAILED;
	}
	return err ? fail("resize-region", err) : EXIT_DONE;
}

static int ramdisk(const char *name, bool removes)
{
	struct pm_ioc_disk disk;
	int err = removes ? pm_disk_remove(name) : pm_disk_add(name, &disk);

	if (err)
		return fail(name, err);
	if (removes)
		return EXIT_DONE;
	printf("/dev/%s\n", disk.disk);
	if (!(disk.flags & PM_HAS_DAX))
		fprintf(stderr, "pmadmin: %s: without direct access (DAX)\n",
			name);
	return EXIT_DONE;
}

/* Which blocks are damaged; a negative errno. */
static int list_bad(struct pm_blocks *segment, const char *name, bool json)
{
	uint64_t bad[64], first = 0;
	int count;

	while ((count = pm_blocks_bad(segment, first, bad, 64)) > 0) {
		for (int i = 0; i < count; i++)
			printf(json ? "%s%llu" : "%s: block %llu is damaged\n",
			       json ? (first || i ? "," : "") : name,
			       (unsigned long long)bad[i]);
		first = bad[count - 1] + 1;
	}
	return count;
}

static int blocks(const struct options *options, const char *name, bool scrubs)
{
	struct pm_ioc_block_status is;
	struct pm_blocks *segment;
	int err = pm_blocks_open(name, &segment);

	if (err)
		return fail(name, err);
	err = scrubs ? pm_blocks_scrub(segment, &is) :
		       pm_blocks_status(segment, &is);
	if (err) {
		pm_blocks_close(segment);
		return fail(name, err);
	}
	printf(options->json ?
		       "{\"name\":\"%s\",\"blocks\":%llu,\"block_bytes\":%u,"
		       "\"bad_blocks\":%llu,\"repaired\":%llu,\"replayed\":%llu,"
		       "\"bad\":[" :
		       "%s: %llu blocks of %u bytes, %llu bad, %llu repaired, "
		       "%llu transactions finished at open\n",
	       name, is.blocks, is.block_bytes, is.bad_blocks, is.repaired,
	       is.replayed);
	err = list_bad(segment, name, options->json);
	if (options->json)
		printf("]}\n");
	pm_blocks_close(segment);
	if (err < 0)
		return fail(name, err);
	return is.bad_blocks ? EXIT_DAMAGE : EXIT_DONE;
}

static int watch(struct pm *pm, const struct options *options)
{
	struct pollfd fd = { .fd = pm_poll_fd(pm), .events = POLLIN };

	do {
		int code = status(pm, options, false);

		fflush(stdout);
		if (code == EXIT_FAILED)
			return code;
	} while (poll(&fd, 1, -1) > 0);
	return EXIT_DONE;
}

static void print_usage(FILE *to)
{
	fputs("usage: pmadmin [--json] [--yes] COMMAND\n"
	      "  status                       the region\n"
	      "  list                         its segments\n"
	      "  create NAME SIZE [--block BYTES] [--mode OCTAL] [--map-address ADDRESS]\n"
	      "                   [--persist foc|fof]\n"
	      "  destroy NAME\n"
	      "  resize NAME SIZE             moves it where it must\n"
	      "  resize-region SIZE           from the next boot on; 0: not after all\n"
	      "  ramdisk add|remove NAME      a disk on a segment\n"
	      "  blocks NAME                  a block segment\n"
	      "  scrub NAME                   look at each of its blocks, repair what can be\n"
	      "  lost                         what media has lost of raw segments\n"
	      "  check                        look at all copies of the base segment, repair\n"
	      "  repair SLOT                  give up a slot damaged in all copies\n"
	      "  export NAME FILE             a copy with a checksum; FILE must not be there\n"
	      "  import NAME FILE             a new segment of such a copy, which is checked first\n"
	      "  watch                        status at each change\n"
	      "SIZE is in bytes, or with K, M, G or T behind it.\n",
	      to);
}

static int help(void)
{
	print_usage(stdout);
	return EXIT_DONE;
}

static int usage(void)
{
	print_usage(stderr);
	return EXIT_USAGE;
}

static int act(struct options *options, int count, char **word)
{
	struct pm *pm = NULL;
	int code, err;

	if (!strcmp(word[0], "ramdisk") && count == 3 &&
	    (!strcmp(word[1], "add") || !strcmp(word[1], "remove")))
		return ramdisk(word[2], word[1][0] == 'r');
	if ((!strcmp(word[0], "scrub") || !strcmp(word[0], "blocks")) &&
	    count == 2)
		return blocks(options, word[1], word[0][0] == 's');
	err = pm_open(&pm, true);
	if (err == -EACCES)
		err = pm_open(&pm, false);
	if (err)
		return fail("/dev/pmctl", err);
	if (!strcmp(word[0], "status") && count == 1)
		code = status(pm, options, false);
	else if (!strcmp(word[0], "check") && count == 1)
		code = status(pm, options, true);
	else if (!strcmp(word[0], "list") && count == 1)
		code = list(pm, options);
	else if (!strcmp(word[0], "lost") && count == 1)
		code = list_lost(pm, options->json);
	else if (!strcmp(word[0], "watch") && count == 1)
		code = watch(pm, options);
	else if (!strcmp(word[0], "create") && count == 3)
		code = create(pm, options, word[1], word[2]);
	else if (!strcmp(word[0], "destroy") && count == 2)
		code = destroy(pm, options, word[1]);
	else if (!strcmp(word[0], "resize") && count == 3)
		code = resize(pm, word[1], word[2]);
	else if (!strcmp(word[0], "repair") && count == 2)
		code = repair(pm, options, word[1]);
	else if (!strcmp(word[0], "export") && count == 3)
		code = export_segment(pm, word[1], word[2]);
	else if (!strcmp(word[0], "import") && count == 3)
		code = import_segment(pm, word[1], word[2]);
	else if (!strcmp(word[0], "resize-region") && count == 2)
		code = resize_region(pm, word[1]);
	else
		code = usage();
	pm_close(pm);
	return code;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "yes", no_argument, NULL, 'y' },
		{ "mode", required_argument, NULL, 'm' },
		{ "block", required_argument, NULL, 'b' },
		{ "map-address", required_argument, NULL, 'a' },
		{ "persist", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options options = { .mode = 0600, .persist = PM_PERSIST_FOC };
	uint64_t bytes;
	int letter;

	while ((letter = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		if (letter == 'j')
			options.json = true;
		else if (letter == 'y')
			options.yes = true;
		else if (letter == 'm')
			options.mode = (unsigned int)strtoul(optarg, NULL, 8);
		else if (letter == 'b' && parse_bytes(optarg, &bytes) &&
			 bytes && bytes <= UINT32_MAX)
			options.block_bytes = (unsigned int)bytes;
		else if (letter == 'a' && parse_bytes(optarg, &bytes))
			options.map_address = bytes;
		else if (letter == 'p' && !strcmp(optarg, "fof"))
			options.persist = PM_PERSIST_FOF;
		else if (letter == 'h')
			return help();
		else if (letter != 'p' || strcmp(optarg, "foc"))
			return usage();
	}
	if (optind == argc)
		return usage();
	return act(&options, argc - optind, argv + optind);
}
