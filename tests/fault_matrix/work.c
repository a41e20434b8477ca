/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.h"

#include <stdlib.h>

#include "calls/call.h"
#include "calls/rules.h"

#define FRINGE 64 /* guard bytes before and behind a buffer */
#define TABLES (256u << 10)

static struct {
	struct call calls[2]; /* an exchange of messages is two */
	int n;
	char *send, *recv, *tables;
	size_t used; /* of the tables */
} at;

static void *take(size_t bytes)
{
	char *memory = at.tables + at.used;

	at.used += (bytes + 15) / 16 * 16;
	if (at.used > TABLES)
		abort();
	return memory;
}

static void give(void *memory)
{
	/* all of it when the next one begins */
}

bool work_begin(void)
{
	call_memory = (struct call_memory){ take, give };
	at.send = malloc(WORK_BYTES + 2 * FRINGE);
	at.recv = malloc(WORK_BYTES + 2 * FRINGE);
	at.tables = malloc(TABLES);
	return at.send && at.recv && at.tables;
}

void work_end(void)
{
	free(at.send);
	free(at.recv);
	free(at.tables);
}

static void lie_at(struct buffer *b, char *memory)
{
	b->before = b->after = FRINGE;
	buffer_lie_at(b, memory);
}

static void prepare(tutti_comm_t comm, const struct work *work, int root, int to)
{
	const int size = tutti_comm_size(comm);
	const struct rule *rule = &rules[work->what];
	const size_t blocks = rule->send == EACH || rule->recv == EACH ? (size_t)size : 1;
	struct call *c = &at.calls[at.n++];

	call_init(c, work->what, tutti_comm_rank(comm), size, TUTTI_FLOAT32, TUTTI_SUM,
		  work->bytes / sizeof(float) / blocks);
	c->op = work->op;
	c->root = root;
	c->to = to;
	call_lay_out(c);
	if (call_sends(c))
		lie_at(&c->send, at.send);
	if (call_receives(c))
		lie_at(&c->recv, at.recv);
	call_fill(c);
}

tutti_result_t work_start(tutti_comm_t comm, const struct work *work, tutti_request_t *request)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);

	at.n = 0;
	at.used = 0;
	if (work->what != MESSAGE) {
		prepare(comm, work, work->root, 0);
		return call_post(comm, &at.calls[0], request);
	}
	prepare(comm, work, rank, (rank + 1) % size);
	prepare(comm, work, (rank + size - 1) % size, rank);
	tutti_result_t result = tutti_group_begin(comm);
	if (result)
		return result;
	for (int i = 0; i < at.n && !result; i++)
		result = call_post(comm, &at.calls[i], NULL);
	const tutti_result_t ended = tutti_group_end(comm, request);
	return result ? result : ended;
}

bool work_is_right(void)
{
	struct wrong wrong;

	for (int i = 0; i < at.n; i++)
		if (!call_check(&at.calls[i], &wrong))
			return false;
	return true;
}
