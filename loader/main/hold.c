/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "hold.h"

#include "../../format/rem_reason_name.h"
#include "../core/answer.h"
#include "../hw/console.h"
#include "../hw/io.h"
#include "../hw/power.h"
#include "../hw/wait.h"

#define LOOK_MS 1000u

static void print_entry(const char *side, const struct rem_desc_entry *entry)
{
	print("%s type %u key %x: %lx %lx %lx %lx %lx", side, entry->type,
	      entry->key, entry->value[0], entry->value[1], entry->value[2],
	      entry->value[3], entry->value[4]);
}

void print_difference(const struct decision *decision)
{
	if (!decision->expected.type && !decision->found.type)
		return;
	print_entry("expected", &decision->expected);
	print_entry("found   ", &decision->found);
}

static void report(const struct decision *decision,
		   const struct hold_steps *steps)
{
	print("hold %u %s sequence %u slot %u", decision->reason,
	      rem_reason_name(decision->reason), decision->sequence,
	      decision->slot);
	print_difference(decision);
	steps->note();
}

/* What was typed before the question is no answer to it. */
static void ask(const struct decision *decision, struct answer *answer)
{
	u32 hold_s = decision->body.hold_s;
	u8 byte;

	while (console_get(&byte))
		;
	*answer = (struct answer){ 0 };
	print("the image of this machine is kept: type %s and Enter to boot cold without it",
	      ANSWER_COLD);
	if (decision->body.policy == REM_POLICY_HOLD_COLD)
		print("without an answer it is given up in %u s", hold_s);
}

/*
 * A second, in which the wire and the console are read; true on the answer, if there
 * was a question.
 */
static bool answered(u16 timer_port, struct answer *answer, bool asked)
{
	struct wait wait = wait_begin(timer_port);
	bool cold = false;
	u8 byte;

	while (!wait_over(&wait, LOOK_MS)) {
		power_poll();
		while (console_get(&byte))
			cold |= answer_byte(answer, byte) && asked;
		if (cold)
			break;
		relax();
	}
	return cold;
}

static bool same_difference(const struct decision *a, const struct decision *b)
{
	return a->reason == b->reason &&
	       !memcmp(&a->expected, &b->expected, sizeof(a->expected)) &&
	       !memcmp(&a->found, &b->found, sizeof(a->found));
}

void hold(const struct decision *decision, u16 timer_port,
	  const struct hold_steps *steps)
{
	static struct decision reported;
	struct answer answer = { 0 };
	u32 hold_s = decision->body.hold_s;
	bool gives_up = decision->body.policy == REM_POLICY_HOLD_COLD;

	report(decision, steps);
	for (u32 second = 1;; second++) {
		reported = *decision;
		if (answered(timer_port, &answer, second > hold_s))
			return;
		steps->look();
		if (!rem_holds(decision))
			return;
		if (!same_difference(decision, &reported))
			report(decision, steps);
		if (second == hold_s)
			ask(decision, &answer);
		if (gives_up && second >= 2 * hold_s) {
			print("no answer in %u s", hold_s);
			return;
		}
	}
}
