/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Front end for UEFI. The user's files are sections of the loader's own image, so that
 * firmware's check of its signature covers them. In an image without a kernel they are
 * files beside the loader, in \EFI\remanence of the file system that firmware has
 * loaded it from; firmware has not checked these, so under Secure Boot they are refused.
 * All of them are read here, whole, also
 * those that a resume does not need: the decision is made when boot services have ended.
 * Until then firmware's drivers run on timers and own the devices that the loader
 * describes (it turns decoding off, and resets disks), and what they have asked for may
 * still arrive in memory. Afterwards nobody but the loader writes to memory.
 *
 * Where there is nothing for this loader to do, no NVRAM or no kernel, firmware gets an
 * error and goes on to its next boot entry.
 */
#include "../core/acpi.h"
#include "../core/pe.h"
#include "../hw/console.h"
#include "../hw/io.h"
#include "../hw/paging.h"
#include "../hw/pci.h"
#include "../main/front.h"
#include "efi.h"

#define UTF16(text) u##text
#define FOLDER UTF16("\\EFI\\remanence\\")
#define LOW_END (1ull << 32)
#define CR4_LA57 (1u << 12)
/* A map of a thousand descriptors, more than firmware is known to have. */
#define MAP_BYTES 0x10000
#define EXIT_TRIES_MAX 8
#define CLASS_BRIDGE 6

static const struct efi_guid acpi_2 = {
	0x8868e871,
	0xe4f1,
	0x11d3,
	{ 0xbc, 0x22, 0x00, 0x80, 0xc7, 0x3c, 0x88, 0x81 },
};
static const struct efi_guid acpi_1 = {
	0xeb9d2d30,
	0x2d88,
	0x11d3,
	{ 0x9a, 0x16, 0x00, 0x90, 0x27, 0x3f, 0xc1, 0x4d },
};
static const struct efi_guid loaded_image = {
	0x5b1b31a1,
	0x9562,
	0x11d2,
	{ 0x8e, 0x3f, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b },
};
static const struct efi_guid simple_file_system = {
	0x964e5b22,
	0x6459,
	0x11d2,
	{ 0x8e, 0x39, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b },
};

static const struct efi_guid graphics_output = {
	0x9042a9de,
	0x23dc,
	0x4a38,
	{ 0x96, 0xfb, 0x7a, 0xde, 0xd0, 0x80, 0x51, 0x6a },
};

static const efi_char *const file_name[FRONT_FILES] = {
	[FRONT_KERNEL] = FOLDER "vmlinuz",
	[FRONT_INITRD] = FOLDER "initrd",
	[FRONT_CMDLINE] = FOLDER "cmdline",
	[FRONT_PROTECTED] = FOLDER "protected",
};
static const efi_char *const cold_name = FOLDER "cold";
static const char *const section_name[FRONT_FILES] = {
	[FRONT_KERNEL] = ".linux",
	[FRONT_INITRD] = ".initrd",
	[FRONT_CMDLINE] = ".cmdline",
	[FRONT_PROTECTED] = ".protect",
};

static const struct efi_guid global_variable = {
	0x8be4df61,
	0x93ca,
	0x11d2,
	{ 0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c },
};

struct file {
	const u8 *data; /* NULL = there is none */
	u32 bytes;
};

static struct file files[FRONT_FILES];
static struct front front;
static u8 raw_map[MAP_BYTES] __attribute__((aligned(8)));

extern const u8 go_image_base[];

_Noreturn void go_leave_firmware(const struct front *to);

static bool file_size(enum front_file file, u32 *ret_bytes)
{
	if (!files[file].data)
		return false;
	*ret_bytes = files[file].bytes;
	return true;
}

static bool file_read(enum front_file file, u32 offset, void *to, u32 bytes)
{
	const struct file *from = &files[file];

	if (!from->data || offset > from->bytes || bytes > from->bytes - offset)
		return false;
	memcpy(to, from->data + offset, bytes);
	return true;
}

static bool same_guid(const struct efi_guid *a, const struct efi_guid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static u64 find_rsdp(const struct efi_system *system)
{
	const struct efi_guid *wanted[] = { &acpi_2, &acpi_1 };

	for (u32 n = 0; n < GO_COUNT(wanted); n++)
		for (u64 i = 0; i < system->table_count; i++)
			if (same_guid(&system->table[i].guid, wanted[n]))
				return (uintptr_t)system->table[i].table;
	return 0;
}

/* As firmware has set it, at each boot in the same way: an image finds it again. */
static struct linux_screen find_screen(const struct efi_boot_services *boot)
{
	struct linux_screen none = { .base = 0 };
	const struct efi_screen_mode *mode;
	const struct efi_screen *screen;
	void *found;
	bool is_rgb;

	if (boot->locate_protocol(&graphics_output, NULL, &found))
		return none;
	screen = found;
	mode = screen->now->info;
	is_rgb = mode->format == EFI_PIXEL_RGB;
	if ((!is_rgb && mode->format != EFI_PIXEL_BGR) ||
	    mode->line_pixels > UINT16_MAX / 4 || mode->width > UINT16_MAX ||
	    mode->height > UINT16_MAX)
		return none;
	return (struct linux_screen){
		.base = screen->now->base,
		.line_bytes = mode->line_pixels * 4,
		.width = (u16)mode->width,
		.height = (u16)mode->height,
		.red_at = is_rgb ? 0 : 16,
		.green_at = 8,
		.blue_at = is_rgb ? 16 : 0,
	};
}

static struct efi_file *open_volume(efi_handle image,
				    const struct efi_system *system)
{
	struct efi_boot_services *boot = system->boot;
	struct efi_loaded_image *loaded;
	struct efi_file_system *volume;
	struct efi_file *root;
	void *found;

	if (boot->handle_protocol(image, &loaded_image, &found))
		return NULL;
	loaded = found;
	if (boot->handle_protocol(loaded->device, &simple_file_system, &found))
		return NULL;
	volume = found;
	return volume->open_volume(volume, &root) ? NULL : root;
}

/* All of an open file, into pages that every step of the loader can read. */
static bool load(struct efi_boot_services *boot, struct efi_file *from,
		 struct file *ret_file)
{
	u64 bytes, phys = LOW_END - 1, done = 0;

	if (from->set_position(from, EFI_FILE_END) ||
	    from->get_position(from, &bytes) || from->set_position(from, 0) ||
	    bytes > UINT32_MAX)
		return false;
	/* One page for an empty file, which is there nevertheless. */
	if (boot->allocate_pages(EFI_ALLOCATE_MAX_ADDRESS, EFI_LOADER_DATA,
				 bytes / GO_PAGE_BYTES + 1, &phys))
		return false;
	while (done < bytes) {
		u64 more = bytes - done;

		if (from->read(from, &more, at_phys(phys + done)) || !more)
			return false;
		done += more;
	}
	*ret_file = (struct file){ at_phys(phys), (u32)bytes };
	return true;
}

/* Not what the user asks for at this boot, which is no part of what is started. */
static void take_sections(void)
{
	struct pe_section found;

	for (u32 n = 0; n < FRONT_FILES; n++)
		if (section_name[n] &&
		    pe_find(go_image_base, section_name[n], &found))
			files[n] = (struct file){ go_image_base + found.at,
						  found.bytes };
}

/* What cannot be read is not known to be off. */
static bool is_secure(const struct efi_system *system)
{
	u8 value = 0;
	u64 bytes = sizeof(value);
	efi_status status = system->runtime->get_variable(
		UTF16("SecureBoot"), &global_variable, NULL, &bytes, &value);

	return status != EFI_NOT_FOUND && (status || value);
}

static bool read_beside(struct efi_boot_services *boot, struct efi_file *root)
{
	for (u32 n = 0; n < FRONT_FILES; n++) {
		struct efi_file *file;
		bool done;

		if (root->open(root, &file, file_name[n], EFI_FILE_READ, 0))
			continue;
		done = load(boot, file, &files[n]);
		file->close(file);
		if (!done) {
			print("file %u of \\EFI\\remanence cannot be read", n);
			return false;
		}
	}
	return true;
}

static bool is_there(struct efi_file *root, const efi_char *name)
{
	struct efi_file *file;

	if (root->open(root, &file, name, EFI_FILE_READ, 0))
		return false;
	file->close(file);
	return true;
}

static bool read_files(efi_handle image, const struct efi_system *system)
{
	struct efi_file *root = open_volume(image, system);
	bool done;

	take_sections();
	done = files[FRONT_KERNEL].data;
	if (!root) {
		if (!done)
			print("the file system of the loader cannot be opened");
		return done;
	}
	done = done || read_beside(system->boot, root);
	front.cold_requested = is_there(root, cold_name);
	root->close(root);
	return done;
}

/* As the kernel is to see it when boot services have ended. */
static u32 type_of(u32 type)
{
	switch (type) {
	case EFI_LOADER_CODE:
	case EFI_LOADER_DATA:
	case EFI_BOOT_CODE:
	case EFI_BOOT_DATA:
	case EFI_CONVENTIONAL:
		return MAP_RAM;
	case EFI_ACPI_RECLAIM:
		return MAP_ACPI;
	case EFI_ACPI_NVS:
		return MAP_NVS;
	case EFI_PERSISTENT:
		return MAP_PMEM;
	default:
		return MAP_RESERVED;
	}
}

/* What neither firmware nor this loader uses any more. */
static bool is_free(u32 type)
{
	return type == EFI_BOOT_CODE || type == EFI_BOOT_DATA ||
	       type == EFI_CONVENTIONAL;
}

static bool add(const struct efi_descriptor *entry)
{
	u64 bytes = entry->pages * GO_PAGE_BYTES;
	u32 type = type_of(entry->type);
	bool all = map_paint(&front.map, entry->phys, bytes, type);

	/* Its services at run time are called before the loader, too. */
	if (type == MAP_RAM || type == MAP_ACPI || type == MAP_NVS ||
	    entry->type == EFI_RUNTIME_CODE || entry->type == EFI_RUNTIME_DATA)
		all &= map_paint(&front.firmware, entry->phys, bytes, MAP_RAM);
	if (is_free(entry->type))
		all &= map_paint(&front.free, entry->phys, bytes, MAP_RAM);
	return all;
}

/* The maps of this moment, and its key; false if they do not fit. */
static bool read_map(struct efi_boot_services *boot, u64 *ret_key)
{
	u64 bytes = sizeof(raw_map), entry_bytes;
	u32 version;
	bool all = true;

	if (boot->get_memory_map(&bytes, raw_map, ret_key, &entry_bytes,
				 &version) ||
	    entry_bytes < sizeof(struct efi_descriptor))
		return false;
	front.map.count = front.firmware.count = front.free.count = 0;
	for (u64 at = 0; at + entry_bytes <= bytes; at += entry_bytes) {
		struct efi_descriptor entry;

		memcpy(&entry, raw_map + at, sizeof(entry));
		all &= add(&entry);
	}
	return all;
}

/* Firmware has checked the loader only; what it would start, nobody has. */
static bool is_trusted(void)
{
	struct pe_section kernel;

	return !front.secure ||
	       pe_find(go_image_base, section_name[FRONT_KERNEL], &kernel);
}

/* Whether loader_main() would find what it cannot do without. */
static efi_status check(struct efi_boot_services *boot)
{
	static const struct loader_memory low = { .bytes = LOW_END };
	static struct acpi_tables acpi;
	struct ranges nvram = { .count = 0 };
	u64 key;

	if (!files[FRONT_KERNEL].data) {
		print("no kernel: there is no \\EFI\\remanence\\vmlinuz");
		return EFI_NOT_FOUND;
	}
	if (!read_map(boot, &key)) {
		print("firmware's memory map does not fit");
		return EFI_LOAD_ERROR;
	}
	if (!front.rsdp_phys || !acpi_list(&low, front.rsdp_phys, &acpi)) {
		print("no ACPI tables with valid checksums");
		return EFI_NOT_FOUND;
	}
	(void)acpi_nvram(&acpi, &nvram);
	(void)ranges_add_map(&nvram, &front.map);
	ranges_remove_map(&nvram, &front.firmware);
	if (!ranges_region(&nvram, 0)) {
		print("no NVRAM: nothing to resume, nothing to keep");
		return EFI_NOT_FOUND;
	}
	return EFI_SUCCESS;
}

/* Firmware may change its map until the moment at which it ends. */
static void end_boot_services(efi_handle image, struct efi_boot_services *boot)
{
	for (u32 i = 0; i < EXIT_TRIES_MAX; i++) {
		u64 key;

		if (!read_map(boot, &key))
			die("firmware's memory map does not fit");
		if (!boot->exit_boot_services(image, key))
			return;
	}
	die("firmware does not end its boot services");
}

/*
 * What firmware's drivers have left on a device writes to memory no more. Bridges
 * stay: what is behind them is quiet.
 */
static void end_dma(const struct pci_function *function, void *unused)
{
	u16 command = pci_read16(function->bdf, PCI_COMMAND);

	(void)unused;
	if (function->class_revision >> 24 != CLASS_BRIDGE &&
	    command & PCI_COMMAND_MASTER)
		pci_write16(function->bdf, PCI_COMMAND,
			    (u16)(command & ~PCI_COMMAND_MASTER));
}

static bool has_5_levels(void)
{
	u64 cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	return cr4 & CR4_LA57;
}

/* Called by entry_efi.S. Returns only if firmware is to boot something else. */
efi_status loader_efi(efi_handle image, const struct efi_system *system,
		      u64 entry_tsc)
{
	uintptr_t base = (uintptr_t)go_image_base;
	efi_status status;

	console_open();
	front.entry_tsc = entry_tsc;
	front.rsdp_phys = find_rsdp(system);
	front.screen = find_screen(system->boot);
	front.size = file_size;
	front.read = file_read;
	if (has_5_levels()) {
		print("firmware has 5-level paging, which this loader cannot leave");
		return EFI_UNSUPPORTED;
	}
	if (!paging_map(base, pe_image_bytes(go_image_base))) {
		print("the loader is at %lx, which cannot be mapped", base);
		return EFI_UNSUPPORTED;
	}
	if (!read_files(image, system))
		return EFI_LOAD_ERROR;
	front.secure = is_secure(system);
	front.measured = true;
	if (!is_trusted()) {
		print("Secure Boot: the kernel is not a part of this image, so nobody has checked it");
		return EFI_SECURITY_VIOLATION;
	}
	status = check(system->boot);
	if (status)
		return status;
	end_boot_services(image, system->boot);
	pci_scan(end_dma, NULL);
	go_leave_firmware(&front);
}
