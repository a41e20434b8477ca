/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the communicator. `blocked_s` grows by the wall time of each call of tutti, so that it
 * counts what the training waits for, slower ranks included, and not what goes on behind the
 * backward pass. */
#include "team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bits.h"

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* `text` is the library's error message, which may be none. */
static bool failed(tutti_result_t result, const char *what, const char *text)
{
	return why_set(result, "%s failed: %s", what, *text ? text : tutti_strerror(result));
}

/* The library names ranks by those of the communicator. */
static void name_rank(const struct team *team)
{
	int rank = -1;

	tutti_comm_error(team->comm, &rank);
	if (rank >= 0 && team->counted_anew)
		why_set(why.result, "%s; rank %d of these is one of the %d that there are now",
			why.text, rank, team->size);
	else if (rank >= 0 && team->origins[rank] != rank)
		why_set(why.result, "%s; rank %d of these is rank %d of all", why.text, rank,
			team->origins[rank]);
}

static struct team *account_of(struct team *team)
{
	return team->whole ? team->whole : team;
}

void team_begin_call(struct team *team)
{
	account_of(team)->blocked_s -= now_s();
}

bool team_end_call(struct team *team, tutti_result_t result, const char *what)
{
	account_of(team)->blocked_s += now_s();
	return team_ended(team, result, what);
}

/* Blocks of `bytes` in all, of which each rank sends what is not its own; and a sum of as many, which
 * is a reduce-scatter and an all-gather of them at least (Patarasuk and Yuan 2009). */
static void count_blocks(struct team *team, size_t bytes)
{
	const uint64_t others = bytes / (size_t)team->size * ((size_t)team->size - 1);

	account_of(team)->bytes += others;
	account_of(team)->received += others;
}

void team_count_sum(struct team *team, size_t bytes)
{
	count_blocks(team, 2 * bytes);
}

/* Another communicator is the team's from now on, and the one before is gone. */
static bool team_become(struct team *team, tutti_comm_t comm)
{
	team->counted_anew = team->comm || team->newcomer;
	team_leave(team);
	team->comm = comm;
	team->rank = tutti_comm_rank(comm);
	team->size = tutti_comm_size(comm);
	team->origins = calloc((size_t)team->size, sizeof(*team->origins));
	for (int r = 0; team->origins && r < team->size; r++)
		team->origins[r] = r;
	return team->origins || why_no_memory("the list of ranks");
}

bool team_is_newcomer(void)
{
	const char *join = getenv("TUTTI_JOIN");

	return join && strcmp(join, "1") == 0;
}

bool team_join(struct team *team, double timeout_s)
{
	const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_SIZE");
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm;
	tutti_result_t result;

	config.timeout_s = timeout_s;
	team->newcomer = team_is_newcomer();
	result = tutti_init(&config, &comm);
	if (result != TUTTI_OK)
		return failed(result, "joining the other ranks", tutti_last_error(NULL));
	if (!team_become(team, comm))
		return false;
	team->origin = team->newcomer && rank ? atoi(rank) : team->rank;
	team->started = team->newcomer && size ? atoi(size) : team->size;
	return true;
}

bool team_shrink(struct team *team)
{
	tutti_comm_t left;
	const tutti_result_t result = tutti_comm_shrink(team->comm, &left);

	return result == TUTTI_OK
		       ? team_become(team, left)
		       : failed(result, "going on without lost ranks", tutti_last_error(NULL));
}

bool team_grow(struct team *team, int newcomers, double wait_s)
{
	const tutti_call_t call = { sizeof(call), wait_s };
	tutti_comm_t grown;
	tutti_result_t result = tutti_next_call(team->comm, &call);

	if (result == TUTTI_OK)
		result = tutti_comm_grow(team->comm, NULL, newcomers, &grown);
	if (result == TUTTI_OK)
		return team_become(team, grown);
	failed(result, "taking in replacements", tutti_last_error(NULL));
	name_rank(team);
	return false;
}

bool team_divide(struct team *team, int first, int stride, struct team *out)
{
	struct team part = { .whole = account_of(team), .origin = team->origin };
	tutti_comm_t comm = NULL;

	if (!TEAM_CALL(team, tutti_comm_split(team->comm, first, team->rank, &comm),
		       "parting the ranks"))
		return false;
	const bool ok = team_become(&part, comm);

	part.started = part.size;
	for (int r = 0; ok && r < part.size; r++)
		part.origins[r] = team->origins[first + r * stride];
	*out = part;
	return ok;
}

void team_leave(struct team *team)
{
	tutti_comm_destroy(team->comm);
	free(team->origins);
	team->comm = NULL;
	team->origins = NULL;
}

bool team_start_sum(struct team *team, const struct numbers *numbers, void *values, size_t count,
		    tutti_request_t *request)
{
	team_count_sum(team, count * numbers->size);
	return TEAM_CALL(team,
			 tutti_all_reduce(team->comm, values, values, count, numbers->dtype,
					  TUTTI_SUM, request),
			 "the all-reduce");
}

/* Of the first ranks together: all, or those before the caller, whose block begins there. */
static size_t total(const size_t *counts, int ranks)
{
	size_t sum = 0;

	for (int r = 0; r < ranks; r++)
		sum += counts[r];
	return sum;
}

bool team_start_scatter_sum(struct team *team, const struct numbers *numbers, void *values,
			    const size_t *counts, tutti_request_t *request)
{
	void *own = numbers_at(numbers, values, total(counts, team->rank));

	count_blocks(team, total(counts, team->size) * numbers->size);
	return TEAM_CALL(team,
			 tutti_reduce_scatter_v(team->comm, values, own, counts, numbers->dtype,
						TUTTI_SUM, request),
			 "the reduce-scatter");
}

bool team_start_gather(struct team *team, const struct numbers *numbers, void *values,
		       const size_t *counts, tutti_request_t *request)
{
	void *own = numbers_at(numbers, values, total(counts, team->rank));

	count_blocks(team, total(counts, team->size) * numbers->size);
	return TEAM_CALL(
		team,
		tutti_all_gather_v(team->comm, own, values, counts, NULL, numbers->dtype, request),
		"the all-gather");
}

bool team_wait(struct team *team, tutti_request_t *request)
{
	return TEAM_CALL(team, tutti_wait(request), "waiting for other ranks");
}

bool team_sum(struct team *team, double *values, size_t count)
{
	return team_start_sum(team, &numbers_f64, values, count, NULL);
}

bool team_start_send(struct team *team, tutti_dtype_t dtype, const void *values, size_t count,
		     int peer, tutti_request_t *request)
{
	account_of(team)->bytes += count * tutti_dtype_size(dtype);
	return TEAM_CALL(team, tutti_send(team->comm, values, count, dtype, peer, request),
			 "a message to a rank");
}

bool team_start_receive(struct team *team, tutti_dtype_t dtype, void *values, size_t count,
			int peer, tutti_request_t *request)
{
	account_of(team)->received += count * tutti_dtype_size(dtype);
	return TEAM_CALL(team, tutti_recv(team->comm, values, count, dtype, peer, request),
			 "a message from a rank");
}

bool team_ended(struct team *team, tutti_result_t result, const char *what)
{
	if (result == TUTTI_OK)
		return true;
	failed(result, what, tutti_last_error(team->comm));
	name_rank(team);
	return false;
}

void team_be_patient(struct team *team)
{
	const tutti_call_t call = { sizeof(call), fmin(2 * tutti_comm_timeout(team->comm), 1e9) };

	tutti_next_call(team->comm, &call);
}

bool team_exchange(struct team *team, const struct numbers *numbers, const size_t *counts,
		   void *mine, void *all, bool collects)
{
	const size_t own = counts[team->rank];

	if (collects)
		return TEAM_CALL(team,
				 tutti_gather_v(team->comm, mine, own, all, counts, NULL,
						numbers->dtype, 0, NULL),
				 "the gather");
	return TEAM_CALL(
		team,
		tutti_scatter_v(team->comm, all, counts, NULL, mine, own, numbers->dtype, 0, NULL),
		"the scatter");
}

bool team_broadcast(struct team *team, const void *send, void *recv, size_t bytes, int root)
{
	return TEAM_CALL(team,
			 tutti_broadcast(team->comm, send, recv, bytes, TUTTI_UINT8, root, NULL),
			 "the broadcast");
}

bool team_gather(struct team *team, const void *mine, void *all, size_t bytes)
{
	return TEAM_CALL(team, tutti_all_gather(team->comm, mine, all, bytes, TUTTI_UINT8, NULL),
			 "the all-gather");
}

void team_plan(const struct team *team, int peer, char algorithm[32], char transports[32])
{
	tutti_plan_info_t info = { .size = sizeof(info) };
	const char *transport = peer >= 0 ? tutti_comm_transport(team->comm, peer) : NULL;

	*algorithm = *transports = '\0';
	if (peer >= 0) {
		snprintf(algorithm, 32, "messages");
		snprintf(transports, 32, "%s", transport ? transport : "");
	} else if (team->size > 1 && tutti_comm_last_plan(team->comm, &info) == TUTTI_OK) {
		snprintf(algorithm, 32, "%s", info.algorithm);
		snprintf(transports, 32, "%s", info.transports);
	}
}

/* What ranks exchange in team_agree(); the result is 0, or a checksum of the error message. */
enum { AGREE_RESULT, AGREE_OPTIONS, AGREE_DATA, AGREE_ORIGIN, AGREE_FIELDS };
enum { RANKS_TEXT = 128, RANKS_NAMED = 8 };

/* "1, 2 and 3 more" of the ranks whose value is `value`, or is not; "" if there are none. Each value
 * stands so many `fields` behind the one before. How many ranks they are. */
static int list_ranks(const struct team *team, const uint64_t *values, int fields, bool is,
		      uint64_t value, char text[RANKS_TEXT])
{
	int listed = 0, used = 0;

	*text = '\0';
	for (int r = 0; r < team->size; r++)
		if ((values[r * fields] == value) == is && listed++ < RANKS_NAMED)
			used += snprintf(text + used, RANKS_TEXT - (size_t)used, "%s%d",
					 used ? ", " : "", team->origins[r]);
	if (listed > RANKS_NAMED)
		snprintf(text + used, RANKS_TEXT - (size_t)used, " and %d more",
			 listed - RANKS_NAMED);
	return listed;
}

/* Those unlike rank 0; "" if there are none. */
static bool differ(const struct team *team, const uint64_t *values, int fields,
		   char ranks[RANKS_TEXT])
{
	return list_ranks(team, values, fields, false, values[0], ranks) > 0;
}

static bool judge(const struct team *team, const uint64_t *all)
{
	const int first = team->origins[0];
	char ranks[RANKS_TEXT];

	if (list_ranks(team, all + AGREE_RESULT, AGREE_FIELDS, false, 0, ranks) > 0)
		return why_invalid(
			"cannot go on: rank %s could not start; its own message says why", ranks);
	if (differ(team, all + AGREE_OPTIONS, AGREE_FIELDS, ranks))
		return why_invalid("rank %s has other options than rank %d; start all ranks alike",
				   ranks, first);
	if (differ(team, all + AGREE_DATA, AGREE_FIELDS, ranks))
		return why_invalid(
			"rank %s read other data than rank %d; give all hosts the same files",
			ranks, first);
	return true;
}

/* Find the ranks with the same error, or without one like this rank. The lowest of them prints it.
 */
static void find_alike(const struct team *team, const uint64_t *results, struct alike *out)
{
	const uint64_t mine = results[team->rank * AGREE_FIELDS];
	char ranks[RANKS_TEXT];

	for (int r = 0; r < team->rank && !out->repeats; r++)
		out->repeats = results[r * AGREE_FIELDS] == mine;
	if (list_ranks(team, results, AGREE_FIELDS, true, mine, ranks) == team->size)
		snprintf(out->ranks, sizeof(out->ranks), "all ranks");
	else
		snprintf(out->ranks, sizeof(out->ranks), "rank %s", ranks);
}

bool team_agree(struct team *team, bool mine, uint64_t options, uint64_t data, struct alike *alike)
{
	const struct why own = why;
	const uint64_t failure = mine ? 0 : hash_bytes(0, own.text, strlen(own.text)) | 1;
	const uint64_t told[AGREE_FIELDS] = { failure, options, data, (uint64_t)team->origin };
	uint64_t *all = calloc((size_t)team->size, sizeof(told));
	bool ok = all ? team_gather(team, told, all, sizeof(told))
		      : why_no_memory("the ranks' answers");

	if (ok) {
		team->counted_anew = false;
		for (int r = 0; r < team->size; r++)
			team->origins[r] = (int)all[r * AGREE_FIELDS + AGREE_ORIGIN];
		if (alike)
			find_alike(team, all + AGREE_RESULT, alike);
		ok = judge(team, all);
	}
	if (!mine)
		why = own;
	free(all);
	return ok && mine;
}

bool team_verify(struct team *team, const void *weights, size_t bytes, size_t step)
{
	const uint64_t hash = hash_bytes(0, weights, bytes);
	uint64_t *all = calloc((size_t)team->size, sizeof(*all));
	char ranks[RANKS_TEXT];
	bool ok = all ? team_gather(team, &hash, all, sizeof(hash))
		      : why_no_memory("the ranks' checksums");

	if (ok && differ(team, all, 1, ranks))
		ok = why_set(TUTTI_ERR_MISMATCH,
			     "step %zu: the weights of rank %s differ from those of rank %d; "
			     "expected the same bits on every rank",
			     step, ranks, team->origins[0]);
	free(all);
	return ok;
}
