/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The 64-bit boot protocol of Linux/x86 (Documentation/arch/x86/boot.rst): the
 * header of a bzImage, and the boot_params that the kernel gets.
 */
#ifndef LOADER_LINUX_H
#define LOADER_LINUX_H

#include "interval.h"

/* The header ends at 0x202 + its length byte, below this. */
#define BZ_HEAD_BYTES 1024u
#define BZ_VERSION_BYTES 128u
#define LINUX_ENTRY_64 0x200u
#define LINUX_CMDLINE_BYTES_MAX 4096u

struct bz_image {
	u32 setup_bytes;  /* real-mode part, not loaded */
	u32 kernel_bytes; /* the rest of the file, loaded */
	u32 init_bytes;	  /* memory it needs from its load address on */
	u32 align_bytes;
	u32 version_at;	       /* in the file; 0 = none */
	u32 cmdline_bytes_max; /* without the NUL */
};

/*
 * Parse the first BZ_HEAD_BYTES of a file of @file_bytes. NULL and @ret_image
 * filled, or a message that says what is wrong.
 */
const char *bz_parse(const u8 *head, u64 file_bytes,
		     struct bz_image *ret_image);

/* struct linux_screen - a frame buffer that firmware has set up; @base 0: none */
struct linux_screen {
	u64 base;
	u32 line_bytes;
	u16 width, height;
	/* Where the colours are in the 32 bits of a pixel; each has 8. */
	u8 red_at, green_at, blue_at;
};

struct linux_boot {
	u64 cmdline_phys;
	u64 initrd_phys;
	u32 initrd_bytes;
	u64 setup_data_phys;
	u64 rsdp_phys;
	const struct map *map;
	struct linux_screen screen;
};

/* Write the 4096 bytes of boot_params. @head as given to bz_parse(). */
void linux_boot_params(u8 *params, const u8 *head,
		       const struct linux_boot *boot);

/*
 * Write a setup_data node of @type with @payload at @to; @bytes there are
 * LINUX_SETUP_DATA_BYTES + @payload_bytes.
 */
#define LINUX_SETUP_DATA_BYTES 16u
void linux_setup_data(u8 *to, u32 type, const void *payload, u32 payload_bytes);

#endif /* LOADER_LINUX_H */
