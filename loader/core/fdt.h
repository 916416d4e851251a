/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A flattened device tree (Devicetree Specification 0.4, chapter 5): read, and written
 * again, for the kernel, with other memory. Firmware's tree is taken for hostile bytes.
 */
#ifndef LOADER_FDT_H
#define LOADER_FDT_H

#include "interval.h"

#define FDT_MAGIC 0xd00dfeedu
#define FDT_HEADER_BYTES 40u
#define FDT_BYTES_MAX (1u << 20)

/* struct fdt - a tree whose blocks are within its bytes */
struct fdt {
	const u8 *at;
	u32 bytes;
	u32 reserve_at; /* of the list of reserved memory, with its end */
	u32 reserve_bytes;
	u32 struct_at;
	u32 struct_end;
	u32 strings_at;
	u32 strings_end;
	u32 boot_cpu;
};

/* Size of the tree that begins at @header, of FDT_HEADER_BYTES; 0 = no tree. */
u32 fdt_bytes(const u8 *header);

/* False if it is no tree of this layout, or not inside of @bytes. */
bool fdt_open(const u8 *at, u32 bytes, struct fdt *ret_fdt);

enum fdt_kind { FDT_WRONG, FDT_BEGIN, FDT_END, FDT_PROPERTY, FDT_DONE };

/*
 * struct fdt_item - one item of the structure block
 * @at: where it begins; @next: where the next one does
 * @name: of a node or a property; NUL-terminated
 * @value: of a property, @bytes long
 */
struct fdt_item {
	enum fdt_kind kind;
	u32 at;
	u32 next;
	const char *name;
	const u8 *value;
	u32 bytes;
};

/* The item at @at, which is struct_at or the @next of another one. */
struct fdt_item fdt_item(const struct fdt *fdt, u32 at);

#define FDT_DEPTH_MAX 16u

/* struct fdt_node - a node, while the tree is walked; the root has depth 0 */
struct fdt_node {
	const struct fdt *fdt;
	u32 depth;
	u32 properties_at;
	const char *name;
	const char *parent; /* its parent's name */
};

/*
 * Call @visit for each node, parents first. False if the tree is damaged: @visit was
 * called for what comes before the damage.
 */
bool fdt_walk(const struct fdt *fdt,
	      void (*visit)(const struct fdt_node *node, void *context),
	      void *context);

/* A property of @node; its value, NULL if there is none. */
const u8 *fdt_property(const struct fdt_node *node, const char *name,
		       u32 *ret_bytes);

/* True if a list of strings has this one. */
bool fdt_has(const struct fdt_node *node, const char *property,
	     const char *text);

/* True if a status of the node disables it. */
bool fdt_disabled(const struct fdt_node *node);

u32 fdt_u32(const u8 *at);
u64 fdt_u64(const u8 *at);

/* A checksum of all of the tree but /chosen, which firmware fills each time. */
u32 fdt_crc(const struct fdt *fdt);

/*
 * struct fdt_change - what the kernel's tree has in place of firmware's
 * @memory: MAP_RAM is what the kernel may use; there is no other memory
 * @cmdline: NUL-terminated
 * @initrd_phys: with @initrd_bytes; 0 = none
 * @block_phys: the record block, which the kernel leaves alone
 * @region_phys: the range of NVRAM that the block is in
 */
struct fdt_change {
	const struct map *memory;
	const char *cmdline;
	u64 initrd_phys;
	u64 initrd_bytes;
	u64 block_phys;
	u64 block_bytes;
	u64 region_phys;
	u64 region_bytes;
};

/* Write the tree with these changes; its size, 0 if @room is too small. */
u32 fdt_write(const struct fdt *fdt, const struct fdt_change *change, u8 *to,
	      u32 room);

#endif /* LOADER_FDT_H */
