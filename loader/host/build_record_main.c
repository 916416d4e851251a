/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * build-record FILE PHYS SEQUENCE CONSUMED [POLICY HOLD_S [FILE PHYS]]: write a
 * committed image to an NVRAM file, with the machine description that the loader
 * left there. With a second file, that of another range of NVRAM, all that the image
 * points to is there. Its entry is a
 * few instructions that print to COM1 whether rdi and rsi point to a body and a
 * boot note, and end QEMU by isa-debug-exit (port 0xf4).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../core/crc32c.h"
#include "build_record.h"

extern const u8 stub_begin[], stub_end[];

__asm__(".pushsection .rodata\n"
	"stub_begin:\n"
	"	movabsq $0x4547414d494d4552, %rax\n"
	"	cmpq	%rax, (%rdi)\n"
	"	jne	2f\n"
	"	movabsq $0x45544f4e424d4552, %rax\n"
	"	cmpq	%rax, (%rsi)\n"
	"	jne	2f\n"
	"	leaq	4f(%rip), %rbx\n"
	"1:	movw	$0x3f8, %dx\n"
	"	movb	(%rbx), %al\n"
	"	testb	%al, %al\n"
	"	jz	3f\n"
	"	outb	%al, %dx\n"
	"	incq	%rbx\n"
	"	jmp	1b\n"
	"2:	leaq	5f(%rip), %rbx\n"
	"	jmp	1b\n"
	"3:	movw	$0xf4, %dx\n"
	"	movb	$1, %al\n"
	"	outb	%al, %dx\n"
	"	hlt\n"
	"4:	.asciz	\"STUB entered\\r\\n\"\n"
	"5:	.asciz	\"STUB bad registers\\r\\n\"\n"
	"stub_end:\n"
	".popsection\n");

static u8 *map_file(const char *path, u64 *ret_bytes)
{
	struct stat status;
	int fd = open(path, O_RDWR);
	void *at;

	if (fd < 0 || fstat(fd, &status)) {
		perror(path);
		exit(4);
	}
	at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
		  MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || status.st_size <= REM_BLOCK_BYTES + 0x10000) {
		fprintf(stderr, "%s: too small for an image\n", path);
		exit(4);
	}
	*ret_bytes = (u64)status.st_size;
	return at;
}

static u64 number(const char *text)
{
	return strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
	struct record_image image = { 0 };
	struct rem_desc desc;
	u8 *memory, *kernel;
	u64 kernel_bytes;

	if (argc != 5 && argc != 7 && argc != 9) {
		fprintf(stderr,
			"usage: build-record FILE PHYS SEQUENCE CONSUMED [POLICY HOLD_S [FILE PHYS]]\n");
		return 2;
	}
	crc32c_init(false);
	memory = map_file(argv[1], &image.region_bytes);
	memcpy(&desc, memory + REM_DESC_OFFSET, sizeof(desc));
	if (desc.magic != REM_DESC_MAGIC || desc.count > REM_DESC_ENTRIES_MAX) {
		fprintf(stderr, "%s: no machine description: boot it once\n",
			argv[1]);
		return 1;
	}
	image.region_phys = number(argv[2]);
	image.sequence = (u32)number(argv[3]);
	image.policy = argc > 5 ? (u32)number(argv[5]) : REM_POLICY_COLD;
	image.hold_s = argc > 5 ? (u32)number(argv[6]) : 0;
	kernel = argc > 7 ? map_file(argv[7], &kernel_bytes) : memory;
	image.memory_phys = argc > 7 ? number(argv[8]) : image.region_phys;
	image.memory_phys += REM_BLOCK_BYTES;
	image.entry_phys = image.memory_phys;
	image.entry = (const void *)(memory + REM_DESC_OFFSET + sizeof(desc));
	image.entry_count = desc.count;
	memcpy(kernel + REM_BLOCK_BYTES, stub_begin,
	       (size_t)(stub_end - stub_begin));
	build_block(memory, image.region_bytes, (u32)number(argv[4]));
	build_image(memory, &image);
	return 0;
}
