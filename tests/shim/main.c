/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Test shim for memtype=: what a firmware that knows NVDIMMs would have done.
 *
 * QEMU's SeaBIOS does not report NVDIMMs in its memory map. The shim loads a
 * bzImage into DRAM, as firmware does, adds the entries of fw_cfg file
 * opt/remanence/shim-map (struct e820_entry, packed) to the firmware's map, and
 * enters the kernel by the 64-bit boot protocol. Before that it fills all DRAM
 * that the firmware calls usable with poison, except what it prints as "keep".
 * The host checks the poison after the workload: the kernel must not have
 * written to any of it.
 *
 * Poison: each 8-byte word of a page is (address of the page * POISON_FACTOR) ^
 * POISON_SALT; tests/shim_machine.py has the same numbers.
 */
#include "rem_fwcfg.h"
#include "shim.h"

#define SHIM_MAP "opt/remanence/shim-map"

#define PAGE_BYTES 4096ull
#define POISON_FACTOR 0x9e3779b97f4a7c15ull
#define POISON_SALT 0x52454d414e454e43ull

#define KERNEL_AT 0x1000000ull	/* 16 MiB: the address x86 kernels prefer */
#define CMDLINE_MAX_BYTES 2048u /* COMMAND_LINE_SIZE of x86 */
#define E820_RAM 1u
#define E820_MAX 128u

struct e820_entry {
	uint64_t start;
	uint64_t bytes;
	uint32_t type;
} __attribute__((packed));

/* The fields of struct boot_params (Linux: asm/bootparam.h) that are used. */
static uint8_t boot_params[4096] __attribute__((aligned(4096)));
#define BP_EXT_RAMDISK_IMAGE 0x0c0
#define BP_EXT_CMD_LINE_PTR 0x0c8
#define BP_E820_ENTRIES 0x1e8
#define BP_HDR 0x1f1
#define BP_HDR_MAGIC 0x202
#define BP_TYPE_OF_LOADER 0x210
#define BP_RAMDISK_IMAGE 0x218
#define BP_RAMDISK_SIZE 0x21c
#define BP_CMD_LINE_PTR 0x228
#define BP_INIT_SIZE 0x260
#define BP_E820_TABLE 0x2d0

struct kept {
	uint64_t start, end;
	const char *name;
};

static struct kept kept[4];
static unsigned int kept_count;
static char cmdline[CMDLINE_MAX_BYTES];
extern char shim_start[], shim_end[];

void enter_kernel(uint64_t entry, void *params);
void shim_main(uint64_t mb_info);

static uint32_t get32(const uint8_t *from, size_t offset)
{
	uint32_t value;

	memcpy(&value, from + offset, sizeof(value));
	return value;
}

static void put32(size_t offset, uint32_t value)
{
	memcpy(boot_params + offset, &value, sizeof(value));
}

static struct e820_entry *e820(void)
{
	return (struct e820_entry *)(boot_params + BP_E820_TABLE);
}

static void keep(uint64_t start, uint64_t end, const char *name)
{
	start &= ~(PAGE_BYTES - 1);
	end = (end + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	kept[kept_count++] = (struct kept){ start, end, name };
	put_range("keep", start, end, name);
}

static void add_entry(const char *what, struct e820_entry entry)
{
	unsigned int count = boot_params[BP_E820_ENTRIES];
	char type[3] = { (char)('0' + entry.type / 10 % 10),
			 (char)('0' + entry.type % 10), 0 };

	if (count == E820_MAX)
		stop("too many entries in the memory map");
	e820()[count] = entry;
	boot_params[BP_E820_ENTRIES] = (uint8_t)(count + 1);
	put_range(what, entry.start, entry.start + entry.bytes, type);
}

/* The multiboot map is that of int 15h, e820. */
static void read_map(const uint8_t *mb_info)
{
	const uint8_t *at = (const uint8_t *)(uint64_t)get32(mb_info, 48);
	const uint8_t *end = at + get32(mb_info, 44);
	struct e820_entry entry;
	uint32_t bytes;
	uint16_t key;

	if (!(get32(mb_info, 0) & 0x40))
		stop("no memory map from multiboot");
	for (; at < end; at += get32(at, 0) + 4) {
		memcpy(&entry, at + 4, sizeof(entry));
		add_entry("firmware", entry);
	}

	key = fwcfg_require(SHIM_MAP, &bytes);
	for (uint32_t offset = 0; offset + sizeof(entry) <= bytes;
	     offset += sizeof(entry)) {
		fwcfg_read(key, offset, &entry, sizeof(entry));
		add_entry("added", entry);
	}
}

/* Returns the kernel's 64-bit entry. */
static uint64_t load_kernel(void)
{
	uint32_t bytes, setup_bytes, header_bytes;
	static uint8_t sector[1024];
	uint16_t key = fwcfg_require(REM_FWCFG_KERNEL, &bytes);

	if (bytes < sizeof(sector))
		stop("the kernel is too short");
	fwcfg_read(key, 0, sector, sizeof(sector));
	if (get32(sector, BP_HDR_MAGIC) != 0x53726448) /* "HdrS" */
		stop("the kernel is not a bzImage");

	header_bytes = 0x202u + sector[0x201] - BP_HDR;
	memcpy(boot_params + BP_HDR, sector + BP_HDR, header_bytes);
	boot_params[BP_TYPE_OF_LOADER] = 0xff;

	setup_bytes = ((sector[BP_HDR] ? sector[BP_HDR] : 4u) + 1u) * 512u;
	fwcfg_read(key, setup_bytes, (void *)KERNEL_AT, bytes - setup_bytes);
	keep(KERNEL_AT, KERNEL_AT + get32(boot_params, BP_INIT_SIZE),
	     "the kernel as loaded, and the boot stub's run space");
	return KERNEL_AT + 0x200;
}

static void load_cmdline(void)
{
	uint32_t bytes;
	uint16_t key = fwcfg_require(REM_FWCFG_CMDLINE, &bytes);

	if (bytes >= sizeof(cmdline))
		stop("the command line is too long");
	fwcfg_read(key, 0, cmdline, bytes);
	put32(BP_CMD_LINE_PTR, (uint32_t)(uint64_t)cmdline);
}

/* To the top of the DRAM below 4 GiB. */
static void load_initrd(void)
{
	uint64_t at, top = 0;
	uint32_t bytes;
	uint16_t key = fwcfg_find(REM_FWCFG_INITRD, &bytes);

	if (!key)
		return;
	for (unsigned int i = 0; i < boot_params[BP_E820_ENTRIES]; i++) {
		struct e820_entry *entry = &e820()[i];

		if (entry->type == E820_RAM &&
		    entry->start + entry->bytes <= 1ull << 32)
			top = entry->start + entry->bytes;
	}
	at = (top - bytes) & ~(PAGE_BYTES - 1);
	if (at < kept[kept_count - 1].end)
		stop("no DRAM for the initrd");
	fwcfg_read(key, 0, (void *)at, bytes);
	put32(BP_RAMDISK_IMAGE, (uint32_t)at);
	put32(BP_RAMDISK_SIZE, bytes);
	keep(at, at + bytes, "the initrd as loaded");
}

static const struct kept *kept_at(uint64_t page)
{
	for (unsigned int i = 0; i < kept_count; i++) {
		if (page >= kept[i].start && page < kept[i].end)
			return &kept[i];
	}
	return 0;
}

static void poison_range(uint64_t start, uint64_t end)
{
	const struct kept *hole;
	uint64_t run = start;
	uint64_t page = start;

	while (page < end) {
		hole = kept_at(page);
		if (!hole) {
			uint64_t word = page * POISON_FACTOR ^ POISON_SALT;
			void *at = (void *)page;
			uint64_t words = PAGE_BYTES / 8;

			__asm__ volatile("rep stosq"
					 : "+D"(at), "+c"(words)
					 : "a"(word)
					 : "memory");
			page += PAGE_BYTES;
			continue;
		}
		if (run < page)
			put_range("poison", run, page, "");
		page = run = hole->end;
	}
	if (run < end)
		put_range("poison", run, end, "");
}

static void poison_dram(void)
{
	for (unsigned int i = 0; i < boot_params[BP_E820_ENTRIES]; i++) {
		struct e820_entry *entry = &e820()[i];

		if (entry->type == E820_RAM && entry->start < 1ull << 32)
			poison_range((entry->start + PAGE_BYTES - 1) &
					     ~(PAGE_BYTES - 1),
				     (entry->start + entry->bytes) &
					     ~(PAGE_BYTES - 1));
	}
}

void shim_main(uint64_t mb_info)
{
	uint64_t entry;

	read_map((const uint8_t *)mb_info);
	keep(0, PAGE_BYTES, "interrupt vectors and BIOS data area");
	keep((uint64_t)shim_start, (uint64_t)shim_end,
	     "the shim, boot_params, command line");
	entry = load_kernel();
	load_cmdline();
	load_initrd();
	poison_dram();
	put_range("enter", entry, entry, "");
	enter_kernel(entry, boot_params);
}
