/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "linux.h"

/* Offsets in the first sectors of the file and in boot_params. */
#define SETUP_SECTS 0x1f1
#define HEADER_BEGIN 0x1f1
#define JUMP_LENGTH 0x201
#define HEADER_MAGIC 0x202
#define HEADER_VERSION 0x206
#define KERNEL_VERSION 0x20e
#define LOADER_TYPE 0x210
#define RAMDISK_IMAGE 0x218
#define RAMDISK_SIZE 0x21c
#define CMDLINE_POINTER 0x228
#define KERNEL_ALIGNMENT 0x230
#define XLOADFLAGS 0x236
#define CMDLINE_SIZE 0x238
#define SETUP_DATA 0x250
#define INIT_SIZE 0x260
#define HEADER_END_MAX 0x290 /* the next field of boot_params */
#define SCREEN_KIND 0x00f
#define SCREEN_WIDTH 0x012
#define SCREEN_HEIGHT 0x014
#define SCREEN_DEPTH 0x016
#define SCREEN_BASE 0x018
#define SCREEN_BYTES 0x01c
#define SCREEN_LINE_BYTES 0x024
#define SCREEN_COLOURS 0x026 /* size and place of red, green, blue, the rest */
#define SCREEN_CAPABILITIES 0x036
#define SCREEN_EXT_BASE 0x03a
#define ACPI_RSDP 0x070
#define EXT_RAMDISK_IMAGE 0x0c0
#define EXT_CMDLINE_POINTER 0x0c8
#define E820_COUNT 0x1e8
#define E820_TABLE 0x2d0
#define E820_ENTRY_BYTES 20

#define MAGIC_HDRS 0x53726448u
#define VERSION_MIN 0x020c /* the first with xloadflags */
#define XLF_KERNEL_64 1u
#define XLF_ABOVE_4G 2u
#define LOADER_UNASSIGNED 0xff
#define SCREEN_IS_EFI 0x70
#define SCREEN_HAS_EXT_BASE 2u

const char *bz_parse(const u8 *head, u64 file_bytes, struct bz_image *ret_image)
{
	u32 sectors = head[SETUP_SECTS] ? head[SETUP_SECTS] : 4;
	u32 setup_bytes = (sectors + 1) * 512;
	u32 version_at = get_u16(head + KERNEL_VERSION);
	u16 flags = get_u16(head + XLOADFLAGS);
	u32 align_bytes = get_u32(head + KERNEL_ALIGNMENT);
	u32 init_bytes = get_u32(head + INIT_SIZE);

	if (file_bytes < BZ_HEAD_BYTES || file_bytes > UINT32_MAX)
		return "kernel is too short or too long for a bzImage";
	if (get_u32(head + HEADER_MAGIC) != MAGIC_HDRS)
		return "kernel is not a bzImage (no HdrS)";
	if (get_u16(head + HEADER_VERSION) < VERSION_MIN)
		return "kernel's boot protocol is older than 2.12";
	if (!(flags & XLF_KERNEL_64))
		return "kernel has no 64-bit entry";
	if (!(flags & XLF_ABOVE_4G))
		return "kernel may not be loaded above 4 GiB";
	if (HEADER_MAGIC + head[JUMP_LENGTH] < INIT_SIZE + 4)
		return "kernel's setup header is too short";
	if (file_bytes <= setup_bytes)
		return "kernel file ends within its setup part";
	if (!align_bytes || (align_bytes & (align_bytes - 1)))
		return "kernel_alignment is not a power of two";
	if (init_bytes < file_bytes - setup_bytes)
		return "init_size is less than the kernel itself";

	*ret_image = (struct bz_image){
		.setup_bytes = setup_bytes,
		.kernel_bytes = (u32)(file_bytes - setup_bytes),
		.init_bytes = init_bytes,
		.align_bytes = align_bytes,
		.version_at = version_at ? version_at + 0x200 : 0,
		.cmdline_bytes_max = get_u32(head + CMDLINE_SIZE),
	};
	return NULL;
}

static void put_screen(u8 *params, const struct linux_screen *screen)
{
	/* The rest is where no colour is: the bytes of a pixel are 0, 1, 2, 3. */
	u8 rest =
		(u8)(48 - screen->red_at - screen->green_at - screen->blue_at);
	const u8 at[] = { screen->red_at, screen->green_at, screen->blue_at,
			  rest };

	params[SCREEN_KIND] = SCREEN_IS_EFI;
	put_u16(params + SCREEN_WIDTH, screen->width);
	put_u16(params + SCREEN_HEIGHT, screen->height);
	put_u16(params + SCREEN_DEPTH, 32);
	put_u32(params + SCREEN_BASE, (u32)screen->base);
	put_u32(params + SCREEN_EXT_BASE, (u32)(screen->base >> 32));
	put_u32(params + SCREEN_CAPABILITIES, SCREEN_HAS_EXT_BASE);
	put_u32(params + SCREEN_BYTES, screen->line_bytes * screen->height);
	put_u16(params + SCREEN_LINE_BYTES, (u16)screen->line_bytes);
	for (u32 i = 0; i < GO_COUNT(at); i++) {
		params[SCREEN_COLOURS + 2 * i] = 8;
		params[SCREEN_COLOURS + 2 * i + 1] = at[i];
	}
}

void linux_boot_params(u8 *params, const u8 *head,
		       const struct linux_boot *boot)
{
	const struct map *map = boot->map;
	u32 header_end = HEADER_MAGIC + head[JUMP_LENGTH];

	if (header_end > HEADER_END_MAX)
		header_end = HEADER_END_MAX;
	memset(params, 0, GO_PAGE_BYTES);
	memcpy(params + HEADER_BEGIN, head + HEADER_BEGIN,
	       header_end - HEADER_BEGIN);
	params[LOADER_TYPE] = LOADER_UNASSIGNED;
	put_u32(params + CMDLINE_POINTER, (u32)boot->cmdline_phys);
	put_u32(params + EXT_CMDLINE_POINTER, (u32)(boot->cmdline_phys >> 32));
	put_u32(params + RAMDISK_IMAGE, (u32)boot->initrd_phys);
	put_u32(params + RAMDISK_SIZE, boot->initrd_bytes);
	put_u32(params + EXT_RAMDISK_IMAGE, (u32)(boot->initrd_phys >> 32));
	put_u64(params + SETUP_DATA, boot->setup_data_phys);
	put_u64(params + ACPI_RSDP, boot->rsdp_phys);
	if (boot->screen.base)
		put_screen(params, &boot->screen);

	params[E820_COUNT] = (u8)map->count;
	for (u32 i = 0; i < map->count; i++) {
		u8 *entry = params + E820_TABLE + i * E820_ENTRY_BYTES;

		put_u64(entry, map->entry[i].base);
		put_u64(entry + 8, map->entry[i].bytes);
		put_u32(entry + 16, map->entry[i].type);
	}
}

void linux_setup_data(u8 *to, u32 type, const void *payload, u32 payload_bytes)
{
	put_u64(to, 0);
	put_u32(to + 8, type);
	put_u32(to + 12, payload_bytes);
	memcpy(to + LINUX_SETUP_DATA_BYTES, payload, payload_bytes);
}
