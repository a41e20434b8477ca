/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the checks of what a program says of its next call. */
#include "next_call.h"

#include "clock.h"
#include "group.h"
#include "log.h"
#include "narrow.h"

static tutti_result_t check(const struct tutti_comm *comm, const tutti_call_t *call)
{
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_next_call");

	if (refused)
		return refused;
	if (!call)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_next_call: call is NULL");
	if (call->size != sizeof(*call))
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_next_call: call->size is %zu, expected sizeof(tutti_call_t), %zu: start from "
			"TUTTI_CALL_INIT",
			call->size, sizeof(*call));
	if (!tt_seconds_sound(call->timeout_s))
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_next_call: timeout_s is %g: expected seconds, more than 0 and at most 1e9, or 0 for "
			"the communicator's",
			call->timeout_s);
	return tt_narrow_check("tutti_next_call: wire", call->wire);
}

static tutti_result_t no_memory(const char *call)
{
	return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC,
		       "%s: no memory; the next call is as all of the communicator's", call);
}

TUTTI_API tutti_result_t tutti_next_call(tutti_comm_t comm, const tutti_call_t *call)
{
	const tutti_result_t result = check(comm, call);

	if (result)
		return result;
	tt_comm_lock(comm);
	const bool said = tt_next_call_set(comm, call);
	pthread_mutex_unlock(&comm->lock);
	return said ? TUTTI_OK : no_memory("tutti_next_call");
}

/* The characters as one word, from the lowest byte on; 0: they are no name. */
static uint64_t word_of(const char *element)
{
	uint64_t word = 0;
	size_t n = 0;

	for (; n < sizeof(word) && element[n] > ' ' && element[n] <= '~'; n++)
		word |= (uint64_t)(uint8_t)element[n] << 8 * n;
	return element[n] ? 0 : word;
}

TUTTI_API tutti_result_t tutti_next_element(tutti_comm_t comm, const char *element)
{
	const uint64_t word = element ? word_of(element) : 0;

	if (!tt_comm_usable(comm))
		return tt_comm_refuse(comm, "tutti_next_element");
	if (!word)
		return tt_fail(
			TUTTI_ERR_INVALID, EXEC,
			"tutti_next_element: element is %s%.16s%s, expected 1 to 8 printable characters of ASCII",
			element ? "\"" : "", element ? element : "NULL", element ? "\"" : "");
	if (tt_group_say_element(comm, word))
		return TUTTI_OK;
	tt_comm_lock(comm);
	const bool said = tt_next_call_set_element(comm, word);
	pthread_mutex_unlock(&comm->lock);
	return said ? TUTTI_OK : no_memory("tutti_next_element");
}
