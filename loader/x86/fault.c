/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../hw/fault.h"

#include "../hw/console.h"
#include "../hw/io.h"

#define VECTORS 32
#define GATE_INTERRUPT 0x8e00
#define CODE_SELECTOR 0x10
#define STUB_BYTES 16

struct gate {
	u16 low;
	u16 selector;
	u16 flags;
	u16 middle;
	u32 high;
	u32 reserved;
};

extern const u8 fault_stubs[VECTORS][STUB_BYTES];

static struct gate idt[VECTORS];

/* Called by fault_64.S. */
_Noreturn void fault_report(u64 vector, u64 error, u64 rip)
{
	u64 address;

	__asm__ volatile("mov %%cr2, %0" : "=r"(address));
	die("fault %lu error %lx at %lx, address %lx", vector, error, rip,
	    address);
}

void fault_open(void)
{
	struct {
		u16 pad[3];
		u16 limit;
		u64 base;
	} pointer = { .limit = sizeof(idt) - 1, .base = (uintptr_t)idt };

	for (u32 i = 0; i < VECTORS; i++) {
		u64 stub = (u64)(uintptr_t)fault_stubs[i];

		idt[i] = (struct gate){
			.low = (u16)stub,
			.selector = CODE_SELECTOR,
			.flags = GATE_INTERRUPT,
			.middle = (u16)(stub >> 16),
			.high = (u32)(stub >> 32),
		};
	}
	__asm__ volatile("lidt %0" : : "m"(pointer.limit), "m"(pointer.base));
}
