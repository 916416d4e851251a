/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * build-record FILE PHYS SEQUENCE CONSUMED [POLICY HOLD_S [FILE PHYS]]: write a
 * committed image to an NVRAM file, with the machine description that the loader
 * left there. With a second file, that of another range of NVRAM, all that the image
 * points to is there. Its entry is a
 * few instructions that print to COM1 whether rdi and rsi point to a body and a
 * boot note, and what can still write to memory on bus 0: functions that are bus
 * masters (but for bridges), virtio devices with a port whose status is not that of a
 * reset. Then they end QEMU by isa-debug-exit (port 0xf4). They use no stack.
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

__asm__(".macro read_config\n"
	"	movw	$0xcf8, %dx\n"
	"	outl	%eax, %dx\n"
	"	movw	$0xcfc, %dx\n"
	"	inl	%dx, %eax\n"
	".endm\n"
	".pushsection .rodata\n"
	"stub_begin:\n"
	"	movabsq $0x4547414d494d4552, %rax\n"
	"	cmpq	%rax, (%rdi)\n"
	"	jne	2f\n"
	"	movabsq $0x45544f4e424d4552, %rax\n"
	"	cmpq	%rax, (%rsi)\n"
	"	jne	2f\n"
	"	xorl	%r8d, %r8d\n" /* bus masters */
	"	xorl	%r9d, %r9d\n" /* virtio devices in use */
	"	xorl	%r10d, %r10d\n"
	"10:	movl	%r10d, %r11d\n"
	"	shll	$8, %r11d\n"
	"	orl	$0x80000000, %r11d\n"
	"	movl	%r11d, %eax\n"
	"	read_config\n"
	"	cmpw	$0xffff, %ax\n"
	"	je	12f\n"
	"	movl	%eax, %ecx\n"
	"	leal	8(%r11), %eax\n"
	"	read_config\n"
	"	shrl	$24, %eax\n"
	"	cmpl	$6, %eax\n" /* a bridge */
	"	je	12f\n"
	"	leal	4(%r11), %eax\n"
	"	read_config\n"
	"	testl	$4, %eax\n"
	"	jz	11f\n"
	"	incl	%r8d\n"
	"11:	cmpw	$0x1af4, %cx\n"
	"	jne	12f\n"
	"	leal	0x10(%r11), %eax\n"
	"	read_config\n"
	"	testl	$1, %eax\n"
	"	jz	12f\n"
	"	andl	$~3, %eax\n"
	"	leal	0x12(%rax), %edx\n"
	"	inb	%dx, %al\n"
	"	testb	%al, %al\n"
	"	jz	12f\n"
	"	incl	%r9d\n"
	"12:	incl	%r10d\n"
	"	cmpl	$256, %r10d\n"
	"	jb	10b\n"
	"	addb	%r8b, 6f(%rip)\n"
	"	addb	%r9b, 7f(%rip)\n"
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
	"4:	.ascii	\"STUB entered\\r\\n\"\n"
	"	.ascii	\"STUB bus masters \"\n"
	"6:	.ascii	\"0, devices in use \"\n"
	"7:	.asciz	\"0\\r\\n\"\n"
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
