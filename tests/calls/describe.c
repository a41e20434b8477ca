/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns calls, and what is wrong with them, in words. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "rules.h"
#include "values.h"

__attribute__((format(printf, 2, 3))) static void say(char text[CALL_TEXT], const char *format, ...)
{
	const size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, CALL_TEXT - used, format, arguments);
	va_end(arguments);
}

static void say_buffer(char text[CALL_TEXT], const char *name, const struct buffer *b,
		       const void *at)
{
	say(text, "    %s %p", name, at);
	if (b->memory)
		say(text, ": %zu bytes, %zu behind a multiple of 64, %s", b->bytes,
		    (size_t)((uintptr_t)at % 64),
		    b->mapped ? "of tutti_mem_alloc()" : "of malloc()");
	say(text, "\n");
}

static void say_blocks(char text[CALL_TEXT], const char *name, const struct call *c,
		       size_t (*length)(const struct call *c, int rank),
		       const struct layout *layout)
{
	say(text, "    %s:", name);
	for (int rank = 0; rank < c->size; rank++)
		say(text, layout->given ? " %zu at %zu" : " %zu", length(c, rank),
		    layout->at[rank]);
	say(text, "\n");
}

void call_describe(const struct call *c, char text[CALL_TEXT])
{
	const struct rule *rule = &rules[c->what];

	*text = '\0';
	say(text, "  %s(%s × %zu", rule->name, tutti_dtype_name(c->dtype), c->count);
	if (rule->combines)
		say(text, ", %s", combine_name(c->combine));
	if (c->what == MESSAGE)
		say(text, ", from %d to %d", c->root, c->to);
	else if (rule->sends == ROOTS || rule->receives == ROOTS)
		say(text, ", root %d", c->root);
	say(text, ")%s%s%s%s\n", c->in_place ? ", in place" : "",
	    c->contents.rounds ? ", with numbers that are rounded" : "",
	    c->way.algorithm ? ", by " : "", c->way.algorithm ? c->way.algorithm : "");
	if (rule->tables && rule->send == EACH)
		say_blocks(text, "blocks sent", c, call_sent, &c->send_layout);
	if (rule->tables && rule->recv == EACH)
		say_blocks(text, "blocks received", c, call_received, &c->recv_layout);
	say_buffer(text, "send", &c->send, c->send_at);
	say_buffer(text, "recv", c->in_place ? &c->send : &c->recv, c->recv_at);
}

/* As an element has its digits, the highest first. */
static void say_element(char text[CALL_TEXT], const unsigned char *bytes, size_t size)
{
	say(text, "0x");
	for (size_t i = size; i-- > 0;)
		say(text, "%02x", bytes[i]);
}

void call_describe_wrong(const struct call *c, const struct wrong *wrong, char text[CALL_TEXT])
{
	const char *where = wrong->where == &c->recv ? "recv" : "send";

	*text = '\0';
	say(text, "    found ");
	say_element(text, wrong->found, wrong->size);
	say(text, ", expected ");
	say_element(text, wrong->expected, wrong->size);
	if (wrong->within > 0)
		say(text, " or another that is not further than %g from %.20Lg: found %.17g",
		    wrong->within, wrong->near, value_get(wrong->found, 0, c->dtype));
	if (!wrong->piece) {
		say(text,
		    ": a byte that nobody may write, at offset %td from the first of %s; %zu such "
		    "bytes are wrong\n",
		    wrong->offset, where, wrong->all);
		return;
	}
	say(text, " at element %zu of %zu elements ", wrong->at, wrong->piece->n);
	if (wrong->piece->rank >= 0)
		say(text, "from rank %d ", wrong->piece->rank);
	say(text, "at element %zu of %s; %zu of them are wrong\n", wrong->piece->at, where,
	    wrong->all);
}

bool call_is_right(struct call *c, char text[CALL_TEXT])
{
	char more[CALL_TEXT];
	struct wrong wrong;

	if (call_check(c, &wrong))
		return true;
	call_describe(c, text);
	call_describe_wrong(c, &wrong, more);
	say(text, "%s", more);
	return false;
}
