/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * OFF2F: an executable of two files. ABC, on disk, has the header, the data and
 * what relocation needs; XYZ, in NVRAM, has the text, which is mapped from there
 * and never read or copied.
 *
 *   ABC
 *   offset     bytes    what                                      written by
 *   0x000000     4096   header page: struct off2f_header, the     off2f
 *                       texts, the program headers of ABC, the
 *                       path of XYZ, zeros
 *   0x001000      ...   the ELF without the bytes that were cut   off2f
 *                       out
 *
 *   XYZ
 *   offset     bytes    what                                      written by
 *   0x000000     4096   an ELF header, program headers of the     off2f
 *                       texts in this file, the build-id, zeros
 *   0x001000      ...   texts in whole pages, each at its         off2f
 *                       @xyz_offset; holes before them
 *   ...           ...   symbols of the texts, section headers     off2f
 *   end-0x80      128   struct off2f_xyz                          off2f
 *
 * A text is what an executable PT_LOAD maps: whole pages of the ELF, from the
 * page in which the segment begins. Of these pages ABC lacks the longest run
 * that nothing else needs (ELF header, program headers, interpreter's name,
 * other segments): @cut_bytes at @cut_offset. Everything else is in ABC in the
 * ELF's order, so that a byte at offset s of the ELF is at OFF2F_PAGE_BYTES + s -
 * (bytes cut out before s). An offset keeps its position in its page.
 *
 * In memory a program has the program headers of its ELF, so that a debugger
 * recognizes them. A program loader takes offset and alignment of each from
 * struct off2f_phdr: the place of its bytes in ABC. The offset of bytes that were
 * cut out is beyond the end of ABC; it is OFF2F_PAGE_BYTES + the old offset if
 * the text contains the program headers. A text of 2 MiB or more requests an
 * alignment of 2 MiB.
 *
 * XYZ is an ELF file for tools that look up the name of an address in a mapped
 * file (perf). Nothing of that is read when the program is started or runs. XYZ
 * itself cannot be executed: its PT_INTERP has no zero at the end, so the kernel
 * refuses it.
 *
 * A text with a wrong @text_sha256 is never executed: XYZ ends with the digest of
 * its content, which is compared at each start, and the digest itself is checked
 * at install, by `off2f verify`, and at each start if the policy is strict.
 *
 * Numbers are little-endian, reserved words are zero. Python and FORMAT.md are
 * generated from this file; use only what a simple parser can read.
 */
#ifndef OFF2F_H
#define OFF2F_H

#include "rem_image.h"

/* 0x7f "OFF", 0x7f "XYZ" */
#define OFF2F_MAGIC 0x46464f7f
#define OFF2F_XYZ_MAGIC 0x5a59587f
#define OFF2F_VERSION 2

#define OFF2F_PAGE_BYTES 4096
#define OFF2F_HUGE_BYTES 0x200000 /* page size for texts of this size */
#define OFF2F_TEXTS_MAX 4
#define OFF2F_PHDRS_MAX 40
#define OFF2F_PATH_MAX 2048	   /* with the zero at its end */
#define OFF2F_FILE_MAX 0x100000000 /* of ELF, ABC and XYZ */

/*
 * struct off2f_header - the first bytes of ABC
 *
 * @crc is CRC32C of @header_bytes bytes, taken with @crc zero.
 */
struct off2f_header {
	rem_u32 magic;		/*   0 OFF2F_MAGIC */
	rem_u32 version;	/*   4 OFF2F_VERSION */
	rem_u32 header_bytes;	/*   8 of this, texts, program headers, path */
	rem_u32 crc;		/*  12 */
	rem_u16 machine;	/*  16 e_machine of the ELF */
	rem_u16 type;		/*  18 e_type of the ELF */
	rem_u32 texts;		/*  20 struct off2f_text, at offset 256 */
	rem_u32 phdrs;		/*  24 struct off2f_phdr, after them */
	rem_u32 path_bytes;	/*  28 of XYZ, with its zero, after those */
	rem_u64 abc_bytes;	/*  32 size of ABC */
	rem_u64 xyz_bytes;	/*  40 size of XYZ */
	rem_u64 source_bytes;	/*  48 size of the ELF */
	rem_u8 ehdr[64];	/*  56 the ELF header; e_phoff is ABC's */
	rem_u8 text_sha256[32]; /* 120 of all texts' pages, in order */
	rem_u8 rest_sha256[32]; /* 152 of ABC after the header page */
	rem_u8 build_id[20];	/* 184 of the ELF, zeros if it has none */
	rem_u32 reserved[13];	/* 204 */
};

/*
 * struct off2f_text - what an executable segment maps
 */
struct off2f_text {
	rem_u64 vaddr;	    /*  0 of its first page, before the load address */
	rem_u64 bytes;	    /*  8 whole pages */
	rem_u64 xyz_offset; /* 16 in XYZ */
	rem_u64 source_offset; /* 24 of its first page in the ELF */
	rem_u64 cut_offset;    /* 32 in the ELF: what ABC lacks */
	rem_u64 cut_bytes;     /* 40 whole pages, except at the ELF's end */
	rem_u32 phdr;	       /* 48 which program header */
	rem_u32 flags;	       /* 52 its PF_R, PF_X */
	rem_u64 reserved;      /* 56 */
};

/*
 * struct off2f_phdr - a program header of ABC
 */
struct off2f_phdr {
	rem_u64 offset; /*  0 p_offset */
	rem_u64 align;	/*  8 p_align */
};

/*
 * struct off2f_xyz - the last bytes of XYZ
 *
 * @crc is CRC32C of all bytes before it. @rest_sha256 is that of the first page
 * and of the bytes between the last text and this.
 */
struct off2f_xyz {
	rem_u32 magic;		/*   0 OFF2F_XYZ_MAGIC */
	rem_u32 version;	/*   4 OFF2F_VERSION */
	rem_u64 xyz_bytes;	/*   8 size of XYZ, including this */
	rem_u8 text_sha256[32]; /*  16 as in ABC */
	rem_u8 build_id[20];	/*  48 as in ABC */
	rem_u8 rest_sha256[32]; /*  68 of all that is not text */
	rem_u8 reserved[24];	/* 100 */
	rem_u32 crc;		/* 124 */
};

static_assert(sizeof(struct off2f_header) == 256);
static_assert(offsetof(struct off2f_header, abc_bytes) == 32);
static_assert(offsetof(struct off2f_header, text_sha256) == 120);
static_assert(offsetof(struct off2f_header, reserved) == 204);
static_assert(sizeof(struct off2f_text) == 64);
static_assert(sizeof(struct off2f_phdr) == 16);
static_assert(sizeof(struct off2f_xyz) == 128);
static_assert(offsetof(struct off2f_xyz, crc) == 124);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

#endif /* OFF2F_H */
