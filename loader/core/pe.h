/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sections of a PE32+ image that firmware has loaded and, under Secure Boot, whose
 * signature it has checked: the loader itself, with its files as sections of their
 * own.
 */
#ifndef LOADER_PE_H
#define LOADER_PE_H

#include "base.h"

/* Bytes at the start of an image that all headers have to be in. */
#define PE_HEAD_BYTES GO_PAGE_BYTES

/* struct pe_section - @at: relative to the image's base */
struct pe_section {
	u32 at;
	u32 bytes;
};

/* Bytes of the image in memory; 0 if @head are no headers of a PE32+ image. */
u32 pe_image_bytes(const u8 *head);

/*
 * The section @name of the image that begins with the PE_HEAD_BYTES at @head; false
 * if there is none that lies within the image and behind its headers.
 */
bool pe_find(const u8 *head, const char *name, struct pe_section *ret_section);

#endif /* LOADER_PE_H */
