/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The part of UEFI 2.10 that the loader uses. Members that it does not call are
 * there for their size only.
 */
#ifndef LOADER_EFI_H
#define LOADER_EFI_H

#include "../core/base.h"

#define EFI_CALL __attribute__((ms_abi))

typedef u64 efi_status;
typedef void *efi_handle;
typedef u16 efi_char;

#define EFI_SUCCESS 0ull
#define EFI_ERROR(n) (1ull << 63 | (n))
#define EFI_LOAD_ERROR EFI_ERROR(1)
#define EFI_INVALID_PARAMETER EFI_ERROR(2)
#define EFI_UNSUPPORTED EFI_ERROR(3)
#define EFI_NOT_FOUND EFI_ERROR(14)
#define EFI_SECURITY_VIOLATION EFI_ERROR(26)

struct efi_guid {
	u32 a;
	u16 b, c;
	u8 d[8];
};

/* UEFI 7.2.3: what a range of the memory map is. */
enum efi_memory {
	EFI_LOADER_CODE = 1,
	EFI_LOADER_DATA = 2,
	EFI_BOOT_CODE = 3,
	EFI_BOOT_DATA = 4,
	EFI_RUNTIME_CODE = 5,
	EFI_RUNTIME_DATA = 6,
	EFI_CONVENTIONAL = 7,
	EFI_ACPI_RECLAIM = 9,
	EFI_ACPI_NVS = 10,
	EFI_PERSISTENT = 14,
};

struct efi_descriptor {
	u32 type;
	u32 pad;
	u64 phys;
	u64 virt;
	u64 pages;
	u64 attributes;
};

#define EFI_ALLOCATE_MAX_ADDRESS 1

struct efi_boot_services {
	u8 header[24];
	void *priority[2];
	efi_status(EFI_CALL *allocate_pages)(u32 how, u32 type, u64 pages,
					     u64 *phys);
	void *free_pages;
	efi_status(EFI_CALL *get_memory_map)(u64 *bytes, void *map, u64 *key,
					     u64 *entry_bytes, u32 *version);
	void *pool_and_events[11];
	efi_status(EFI_CALL *handle_protocol)(efi_handle handle,
					      const struct efi_guid *protocol,
					      void **ret_interface);
	void *handles_and_images[9];
	efi_status(EFI_CALL *exit_boot_services)(efi_handle image, u64 key);
	void *more[10];
	efi_status(EFI_CALL *locate_protocol)(const struct efi_guid *protocol,
					      void *registration,
					      void **ret_interface);
};

static_assert(offsetof(struct efi_boot_services, handle_protocol) ==
	      24 + 16 * 8);
static_assert(offsetof(struct efi_boot_services, exit_boot_services) ==
	      24 + 26 * 8);

static_assert(offsetof(struct efi_boot_services, locate_protocol) ==
	      24 + 37 * 8);

/* UEFI 12.9: graphics output. The formats up to the second have 32 bits a pixel. */
#define EFI_PIXEL_RGB 0u
#define EFI_PIXEL_BGR 1u

struct efi_screen_mode {
	u32 version;
	u32 width;
	u32 height;
	u32 format;
	u32 masks[4];
	u32 line_pixels;
};

struct efi_screen {
	void *methods[3];
	const struct {
		u32 modes;
		u32 mode;
		const struct efi_screen_mode *info;
		u64 info_bytes;
		u64 base;
		u64 bytes;
	} * now;
};

struct efi_runtime_services {
	u8 header[24];
	void *time_and_memory[6];
	efi_status(EFI_CALL *get_variable)(const efi_char *name,
					   const struct efi_guid *vendor,
					   u32 *ret_attributes, u64 *bytes,
					   void *to);
};

struct efi_table {
	struct efi_guid guid;
	const void *table;
};

struct efi_system {
	u8 header[24];
	const efi_char *vendor;
	u32 revision;
	u32 pad;
	void *consoles[6];
	struct efi_runtime_services *runtime;
	struct efi_boot_services *boot;
	u64 table_count;
	const struct efi_table *table;
};

static_assert(offsetof(struct efi_system, boot) == 96);

struct efi_loaded_image {
	u32 revision;
	u32 pad;
	efi_handle parent;
	struct efi_system *system;
	efi_handle device;
};

#define EFI_FILE_READ 1ull
#define EFI_FILE_END UINT64_MAX /* as a position */

struct efi_file {
	u64 revision;
	efi_status(EFI_CALL *open)(struct efi_file *folder,
				   struct efi_file **ret_file,
				   const efi_char *name, u64 mode,
				   u64 attributes);
	efi_status(EFI_CALL *close)(struct efi_file *file);
	void *remove;
	efi_status(EFI_CALL *read)(struct efi_file *file, u64 *bytes, void *to);
	void *write;
	efi_status(EFI_CALL *get_position)(struct efi_file *file,
					   u64 *ret_position);
	efi_status(EFI_CALL *set_position)(struct efi_file *file, u64 position);
};

struct efi_file_system {
	u64 revision;
	efi_status(EFI_CALL *open_volume)(struct efi_file_system *system,
					  struct efi_file **ret_root);
};

#endif /* LOADER_EFI_H */
