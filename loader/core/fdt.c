/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "fdt.h"

#include "crc32c.h"

#define VERSION 17u
#define VERSION_COMPATIBLE 16u

#define TOKEN_BEGIN 1u
#define TOKEN_END 2u
#define TOKEN_PROPERTY 3u
#define TOKEN_NOP 4u
#define TOKEN_DONE 9u

#define RESERVE_ENTRY_BYTES 16u

u32 fdt_u32(const u8 *at)
{
	return __builtin_bswap32(get_u32(at));
}

u64 fdt_u64(const u8 *at)
{
	return __builtin_bswap64(get_u64(at));
}

static u32 padded(u32 bytes)
{
	return (bytes + 3) & ~3u;
}

/* Of a string with its NUL, within [at, end); 0 if it does not end there. */
static u32 string_bytes(const u8 *at, const u8 *end)
{
	for (const u8 *byte = at; byte < end; byte++)
		if (!*byte)
			return (u32)(byte - at) + 1;
	return 0;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* A node's name without its address. */
static bool named(const char *name, const char *base)
{
	while (*base && *name == *base) {
		name++;
		base++;
	}
	return !*base && (!*name || *name == '@');
}

u32 fdt_bytes(const u8 *header)
{
	u32 bytes = fdt_u32(header + 4);

	return fdt_u32(header) == FDT_MAGIC && bytes >= FDT_HEADER_BYTES &&
			       bytes <= FDT_BYTES_MAX ?
		       bytes :
		       0;
}

/* The list of reserved memory ends with an entry of zeros. */
static bool reserve_list(struct fdt *fdt)
{
	for (u32 at = fdt->reserve_at; at + RESERVE_ENTRY_BYTES <= fdt->bytes;
	     at += RESERVE_ENTRY_BYTES) {
		if (fdt_u64(fdt->at + at) || fdt_u64(fdt->at + at + 8))
			continue;
		fdt->reserve_bytes = at + RESERVE_ENTRY_BYTES - fdt->reserve_at;
		return true;
	}
	return false;
}

bool fdt_open(const u8 *at, u32 bytes, struct fdt *ret_fdt)
{
	u32 struct_bytes, strings_bytes;
	struct fdt fdt = { .at = at };

	if (bytes < FDT_HEADER_BYTES)
		return false;
	fdt.bytes = fdt_bytes(at);
	if (!fdt.bytes || fdt.bytes > bytes || fdt_u32(at + 20) < VERSION ||
	    fdt_u32(at + 24) > VERSION)
		return false;
	fdt.struct_at = fdt_u32(at + 8);
	fdt.strings_at = fdt_u32(at + 12);
	fdt.reserve_at = fdt_u32(at + 16);
	fdt.boot_cpu = fdt_u32(at + 28);
	strings_bytes = fdt_u32(at + 32);
	struct_bytes = fdt_u32(at + 36);
	if (!range_inside(fdt.struct_at, struct_bytes, 0, fdt.bytes) ||
	    !range_inside(fdt.strings_at, strings_bytes, 0, fdt.bytes) ||
	    fdt.struct_at % 4 || struct_bytes % 4 || fdt.reserve_at % 8 ||
	    fdt.reserve_at > fdt.bytes)
		return false;
	fdt.struct_end = fdt.struct_at + struct_bytes;
	fdt.strings_end = fdt.strings_at + strings_bytes;
	if (!reserve_list(&fdt))
		return false;
	*ret_fdt = fdt;
	return true;
}

static struct fdt_item property_item(const struct fdt *fdt, u32 at)
{
	struct fdt_item wrong = { .kind = FDT_WRONG, .at = at };
	u32 left = fdt->struct_end - at;
	u32 bytes, name_at;

	if (left < 12)
		return wrong;
	bytes = fdt_u32(fdt->at + at + 4);
	name_at = fdt_u32(fdt->at + at + 8);
	if (bytes > left - 12 || padded(bytes) > left - 12 ||
	    name_at >= fdt->strings_end - fdt->strings_at ||
	    !string_bytes(fdt->at + fdt->strings_at + name_at,
			  fdt->at + fdt->strings_end))
		return wrong;
	return (struct fdt_item){
		.kind = FDT_PROPERTY,
		.at = at,
		.next = at + 12 + padded(bytes),
		.name = (const char *)fdt->at + fdt->strings_at + name_at,
		.value = fdt->at + at + 12,
		.bytes = bytes,
	};
}

static struct fdt_item begin_item(const struct fdt *fdt, u32 at)
{
	const u8 *name = fdt->at + at + 4;
	u32 bytes = string_bytes(name, fdt->at + fdt->struct_end);

	if (!bytes || padded(bytes) > fdt->struct_end - at - 4)
		return (struct fdt_item){ .kind = FDT_WRONG, .at = at };
	return (struct fdt_item){
		.kind = FDT_BEGIN,
		.at = at,
		.next = at + 4 + padded(bytes),
		.name = (const char *)name,
	};
}

struct fdt_item fdt_item(const struct fdt *fdt, u32 at)
{
	for (; at < fdt->struct_end; at += 4) {
		struct fdt_item item = { .at = at, .next = at + 4 };

		switch (fdt_u32(fdt->at + at)) {
		case TOKEN_NOP:
			continue;
		case TOKEN_BEGIN:
			return begin_item(fdt, at);
		case TOKEN_PROPERTY:
			return property_item(fdt, at);
		case TOKEN_END:
			item.kind = FDT_END;
			return item;
		case TOKEN_DONE:
			item.kind = FDT_DONE;
			return item;
		default:
			return item;
		}
	}
	return (struct fdt_item){ .kind = FDT_WRONG, .at = at };
}

bool fdt_walk(const struct fdt *fdt,
	      void (*visit)(const struct fdt_node *node, void *context),
	      void *context)
{
	const char *names[FDT_DEPTH_MAX] = { "" };
	u32 depth = 0; /* nodes that are open */

	for (u32 at = fdt->struct_at;;) {
		struct fdt_item item = fdt_item(fdt, at);
		struct fdt_node node = { .fdt = fdt, .depth = depth };

		at = item.next;
		switch (item.kind) {
		case FDT_BEGIN:
			if (depth == FDT_DEPTH_MAX)
				return false;
			names[depth] = item.name;
			node.properties_at = at;
			node.name = item.name;
			node.parent = depth ? names[depth - 1] : "";
			visit(&node, context);
			depth++;
			break;
		case FDT_END:
			if (!depth)
				return false;
			depth--;
			break;
		case FDT_PROPERTY:
			if (!depth)
				return false;
			break;
		case FDT_DONE:
			return !depth;
		default:
			return false;
		}
	}
}

const u8 *fdt_property(const struct fdt_node *node, const char *name,
		       u32 *ret_bytes)
{
	for (u32 at = node->properties_at;;) {
		struct fdt_item item = fdt_item(node->fdt, at);

		if (item.kind != FDT_PROPERTY)
			return NULL;
		at = item.next;
		if (!same(item.name, name))
			continue;
		*ret_bytes = item.bytes;
		return item.value;
	}
}

bool fdt_has(const struct fdt_node *node, const char *property,
	     const char *text)
{
	u32 left, bytes;
	const u8 *at = fdt_property(node, property, &left);

	for (; at && (bytes = string_bytes(at, at + left)); at += bytes) {
		if (same((const char *)at, text))
			return true;
		left -= bytes;
	}
	return false;
}

bool fdt_disabled(const struct fdt_node *node)
{
	u32 bytes;

	return fdt_property(node, "status", &bytes) &&
	       !fdt_has(node, "status", "okay") &&
	       !fdt_has(node, "status", "ok");
}

/* Where the node that begins with @item ends: after its end token; 0: it does not. */
static u32 skip_node(const struct fdt *fdt, struct fdt_item item)
{
	u32 depth = 0;

	for (;;) {
		switch (item.kind) {
		case FDT_BEGIN:
			depth++;
			break;
		case FDT_END:
			if (!--depth)
				return item.next;
			break;
		case FDT_PROPERTY:
			break;
		default:
			return 0;
		}
		item = fdt_item(fdt, item.next);
	}
}

static u32 crc_string(u32 crc, const char *text)
{
	do
		crc = crc32c_add(crc, text, 1);
	while (*text++);
	return crc;
}

u32 fdt_crc(const struct fdt *fdt)
{
	u32 crc = CRC32C_BEGIN;
	u32 depth = 0;

	for (u32 at = fdt->struct_at;;) {
		struct fdt_item item = fdt_item(fdt, at);
		u8 kind = (u8)item.kind;

		at = item.next;
		if (item.kind == FDT_BEGIN && depth == 1 &&
		    same(item.name, "chosen")) {
			at = skip_node(fdt, item);
			if (!at)
				return 0;
			continue;
		}
		crc = crc32c_add(crc, &kind, sizeof(kind));
		switch (item.kind) {
		case FDT_BEGIN:
			depth++;
			crc = crc_string(crc, item.name);
			break;
		case FDT_PROPERTY:
			crc = crc_string(crc, item.name);
			crc = crc32c_add(crc, item.value, item.bytes);
			break;
		case FDT_END:
			depth--;
			break;
		default:
			return crc32c_end(crc);
		}
	}
}

/* The names of properties that are added, after firmware's strings. */
static const char added[] = "bootargs\0"
			    "linux,initrd-start\0"
			    "linux,initrd-end\0"
			    "device_type\0"
			    "reg\0"
			    "compatible\0"
			    "remanence,region\0"
			    "#address-cells\0"
			    "#size-cells\0"
			    "ranges";

/* struct writer - bytes that have been written; @full: there was no room for more */
struct writer {
	u8 *to;
	u32 used;
	u32 room;
	u32 added_at; /* of the names, in the strings block */
	bool full;
};

static void put(struct writer *writer, const void *from, u32 bytes)
{
	writer->full |= bytes > writer->room - writer->used;
	if (writer->full)
		return;
	memcpy(writer->to + writer->used, from, bytes);
	writer->used += bytes;
}

static void put_padded(struct writer *writer, const void *from, u32 bytes)
{
	static const u8 zeros[4];

	put(writer, from, bytes);
	put(writer, zeros, padded(bytes) - bytes);
}

static void put_be32(struct writer *writer, u32 value)
{
	u32 raw = __builtin_bswap32(value);

	put(writer, &raw, sizeof(raw));
}

static u32 length(const char *text)
{
	u32 bytes = 0;

	while (text[bytes])
		bytes++;
	return bytes;
}

/* Where one of the names is among them. */
static u32 added_offset(const char *name)
{
	u32 at = 0;

	while (!same(added + at, name))
		at += length(added + at) + 1;
	return at;
}

static void put_property(struct writer *writer, const char *name,
			 const void *value, u32 bytes)
{
	put_be32(writer, TOKEN_PROPERTY);
	put_be32(writer, bytes);
	put_be32(writer, writer->added_at + added_offset(name));
	put_padded(writer, value, bytes);
}

static void put_text(struct writer *writer, const char *name, const char *text)
{
	put_property(writer, name, text, length(text) + 1);
}

static void put_words(struct writer *writer, const char *name,
		      const u64 *values, u32 count)
{
	u64 raw[2 * MAP_ENTRIES_MAX];

	for (u32 i = 0; i < count; i++)
		raw[i] = __builtin_bswap64(values[i]);
	put_property(writer, name, raw, count * (u32)sizeof(raw[0]));
}

/* A node's name, with its address if that is not zero. */
static void put_begin(struct writer *writer, const char *name, u64 address)
{
	char text[48];
	u32 used = 0;
	int shift = 60;

	while (name[used]) {
		text[used] = name[used];
		used++;
	}
	if (address) {
		text[used++] = '@';
		while (!(address >> shift & 15))
			shift -= 4;
		for (; shift >= 0; shift -= 4)
			text[used++] =
				"0123456789abcdef"[address >> shift & 15];
	}
	text[used++] = 0;
	put_be32(writer, TOKEN_BEGIN);
	put_padded(writer, text, used);
}

static void put_end(struct writer *writer)
{
	put_be32(writer, TOKEN_END);
}

static void put_memory(struct writer *writer, const struct map *map)
{
	u64 reg[2 * MAP_ENTRIES_MAX];
	u32 count = 0;

	for (u32 i = 0; i < map->count; i++) {
		if (map->entry[i].type != MAP_RAM)
			continue;
		reg[count++] = map->entry[i].base;
		reg[count++] = map->entry[i].bytes;
	}
	if (!count)
		return;
	put_begin(writer, "memory", reg[0]);
	put_text(writer, "device_type", "memory");
	put_words(writer, "reg", reg, count);
	put_end(writer);
}

/* What firmware has chosen is kept, but for what the kernel gets from us. */
static void put_chosen(struct writer *writer, const struct fdt *fdt,
		       u32 properties_at, const struct fdt_change *change)
{
	u64 end = change->initrd_phys + change->initrd_bytes;

	put_begin(writer, "chosen", 0);
	while (properties_at) {
		struct fdt_item item = fdt_item(fdt, properties_at);

		if (item.kind != FDT_PROPERTY)
			break;
		properties_at = item.next;
		if (!same(item.name, "bootargs") &&
		    !same(item.name, "linux,initrd-start") &&
		    !same(item.name, "linux,initrd-end"))
			put(writer, fdt->at + item.at, item.next - item.at);
	}
	put_text(writer, "bootargs", change->cmdline);
	if (change->initrd_bytes) {
		put_words(writer, "linux,initrd-start", &change->initrd_phys,
			  1);
		put_words(writer, "linux,initrd-end", &end, 1);
	}
	put_end(writer);
}

static void put_block(struct writer *writer, const struct fdt_change *change)
{
	put_begin(writer, "remanence", change->block_phys);
	put_text(writer, "compatible", "remanence,record");
	put_words(writer, "reg",
		  (u64[2]){ change->block_phys, change->block_bytes }, 2);
	put_words(writer, "remanence,region",
		  (u64[2]){ change->region_phys, change->region_bytes }, 2);
	put_end(writer);
}

static void put_reserved(struct writer *writer, const struct fdt_change *change)
{
	static const u8 two[4] = { 0, 0, 0, 2 };

	put_begin(writer, "reserved-memory", 0);
	put_property(writer, "#address-cells", two, sizeof(two));
	put_property(writer, "#size-cells", two, sizeof(two));
	put_property(writer, "ranges", NULL, 0);
	put_block(writer, change);
	put_end(writer);
}

/* True for the nodes of memory, which are replaced. */
static bool is_memory(const struct fdt *fdt, const struct fdt_item *item)
{
	const struct fdt_node node = { .fdt = fdt,
				       .properties_at = item->next };

	return named(item->name, "memory") ||
	       fdt_has(&node, "compatible", "pmem-region");
}

/* The structure block; false if firmware's is damaged. */
static bool put_structure(struct writer *writer, const struct fdt *fdt,
			  const struct fdt_change *change)
{
	u32 depth = 0, chosen_at = 0;
	bool reserves = false, inside = false;

	for (u32 at = fdt->struct_at;;) {
		struct fdt_item item = fdt_item(fdt, at);
		bool top = item.kind == FDT_BEGIN && depth == 1;

		at = item.next;
		if (top && same(item.name, "chosen"))
			chosen_at = item.next;
		if (top &&
		    (same(item.name, "chosen") || is_memory(fdt, &item))) {
			at = skip_node(fdt, item);
			if (!at)
				return false;
			continue;
		}
		if (top) {
			inside = same(item.name, "reserved-memory");
			reserves |= inside;
		}
		switch (item.kind) {
		case FDT_BEGIN:
			depth++;
			break;
		case FDT_END:
			if (!depth)
				return false;
			if (depth == 2 && inside) {
				put_block(writer, change);
				inside = false;
			}
			if (!--depth) {
				put_memory(writer, change->memory);
				put_chosen(writer, fdt, chosen_at, change);
				if (!reserves)
					put_reserved(writer, change);
			}
			break;
		case FDT_PROPERTY:
			break;
		case FDT_DONE:
			put_be32(writer, TOKEN_DONE);
			return !depth;
		default:
			return false;
		}
		put(writer, fdt->at + item.at, item.next - item.at);
	}
}

u32 fdt_write(const struct fdt *fdt, const struct fdt_change *change, u8 *to,
	      u32 room)
{
	struct writer writer = { .to = to, .room = room };
	u32 strings = fdt->strings_end - fdt->strings_at;
	u32 header[FDT_HEADER_BYTES / 4] = { 0 };
	u32 reserve_at, strings_at, struct_at;

	put(&writer, header, sizeof(header));
	reserve_at = writer.used;
	put(&writer, fdt->at + fdt->reserve_at, fdt->reserve_bytes);
	strings_at = writer.used;
	writer.added_at = strings;
	put(&writer, fdt->at + fdt->strings_at, strings);
	put(&writer, added, sizeof(added));
	while (writer.used % 4 && !writer.full)
		put(&writer, "", 1);
	struct_at = writer.used;
	if (!put_structure(&writer, fdt, change) || writer.full)
		return 0;
	header[0] = FDT_MAGIC;
	header[1] = writer.used;
	header[2] = struct_at;
	header[3] = strings_at;
	header[4] = reserve_at;
	header[5] = VERSION;
	header[6] = VERSION_COMPATIBLE;
	header[7] = fdt->boot_cpu;
	header[8] = strings + (u32)sizeof(added);
	header[9] = writer.used - struct_at;
	for (u32 i = 0; i < GO_COUNT(header); i++)
		header[i] = __builtin_bswap32(header[i]);
	memcpy(to, header, sizeof(header));
	return writer.used;
}
