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

static tutti_result_t communication_failed(const struct team *team, tutti_result_t result,
					   const char *what, struct why *why)
{
	const char *text = tutti_last_error(team->comm);

	return why_set(why, result, "%s failed: %s", what, *text ? text : tutti_strerror(result));
}

static struct team *account_of(struct team *team)
{
	return team->whole ? team->whole : team;
}

/* Account for a call that began at `start`. */
static tutti_result_t called(struct team *team, double start, tutti_result_t result,
			     const char *what, struct why *why)
{
	account_of(team)->blocked_s += now_s() - start;
	return result == TUTTI_OK ? TUTTI_OK : communication_failed(team, result, what, why);
}

/* Blocks of `bytes` in all, of which each rank sends what is not its own; and a sum of as many, which
 * is a reduce-scatter and an all-gather of them at least (Patarasuk and Yuan 2009). */
static void count_blocks(struct team *team, size_t bytes)
{
	const uint64_t others = bytes / (size_t)team->size * ((size_t)team->size - 1);

	account_of(team)->bytes += others;
	account_of(team)->received += others;
}

static void count_sum(struct team *team, size_t bytes)
{
	count_blocks(team, 2 * bytes);
}

/* Another communicator is the team's from now on, and the one before is gone. */
static void team_become(struct team *team, tutti_comm_t comm)
{
	tutti_comm_destroy(team->comm);
	team->comm = comm;
	team->rank = tutti_comm_rank(comm);
	team->size = tutti_comm_size(comm);
}

bool team_is_newcomer(void)
{
	const char *join = getenv("TUTTI_JOIN");

	return join && strcmp(join, "1") == 0;
}

tutti_result_t team_join(struct team *team, double timeout_s, struct why *why)
{
	const char *rank = getenv("TUTTI_RANK"), *size = getenv("TUTTI_SIZE");
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm;
	tutti_result_t result;

	config.timeout_s = timeout_s;
	team->newcomer = team_is_newcomer();
	result = tutti_init(&config, &comm);
	if (result != TUTTI_OK)
		return communication_failed(team, result, "joining the other ranks", why);
	team_become(team, comm);
	team->origin = team->newcomer && rank ? atoi(rank) : team->rank;
	team->started = team->newcomer && size ? atoi(size) : team->size;
	return TUTTI_OK;
}

/* Its error message is that of this thread: the communicator's tells of the loss. */
static tutti_result_t regrouping_failed(tutti_result_t result, const char *what, struct why *why)
{
	const char *text = tutti_last_error(NULL);

	return why_set(why, result, "%s failed: %s", what, *text ? text : tutti_strerror(result));
}

tutti_result_t team_shrink(struct team *team, struct why *why)
{
	tutti_comm_t left;
	const tutti_result_t result = tutti_comm_shrink(team->comm, &left);

	if (result != TUTTI_OK)
		return regrouping_failed(result, "going on without lost ranks", why);
	team_become(team, left);
	return TUTTI_OK;
}

tutti_result_t team_grow(struct team *team, int newcomers, double wait_s, struct why *why)
{
	const tutti_call_t call = { sizeof(call), wait_s };
	tutti_comm_t grown;
	tutti_result_t result = tutti_next_call(team->comm, &call);

	if (result == TUTTI_OK)
		result = tutti_comm_grow(team->comm, NULL, newcomers, &grown);
	if (result != TUTTI_OK)
		return regrouping_failed(result, "taking in replacements", why);
	team_become(team, grown);
	return TUTTI_OK;
}

tutti_result_t team_divide(struct team *team, int color, int key, struct team *out, struct why *why)
{
	const double start = now_s();
	struct team part = { .whole = account_of(team), .origin = team->origin };
	tutti_comm_t comm = NULL;
	const tutti_result_t result =
		called(team, start, tutti_comm_split(team->comm, color, key, &comm),
		       "parting the ranks", why);

	if (result != TUTTI_OK)
		return result;
	team_become(&part, comm);
	part.started = part.size;
	*out = part;
	return TUTTI_OK;
}

void team_leave(struct team *team)
{
	tutti_comm_destroy(team->comm);
	team->comm = NULL;
}

tutti_result_t team_start_sum(struct team *team, const struct numbers *numbers, void *values,
			      size_t count, tutti_request_t *request, struct why *why)
{
	const double start = now_s();

	count_sum(team, count * numbers->size);
	return called(team, start,
		      tutti_all_reduce(team->comm, values, values, count, numbers->dtype, TUTTI_SUM,
				       request),
		      "the all-reduce", why);
}

/* Where the caller's block is. */
static void *own_block(const struct team *team, const struct numbers *numbers, void *values,
		       const size_t *counts)
{
	size_t first = 0;

	for (int r = 0; r < team->rank; r++)
		first += counts[r];
	return numbers_at(numbers, values, first);
}

static size_t total(const struct team *team, const size_t *counts)
{
	size_t sum = 0;

	for (int r = 0; r < team->size; r++)
		sum += counts[r];
	return sum;
}

tutti_result_t team_start_scatter_sum(struct team *team, const struct numbers *numbers,
				      void *values, const size_t *counts, tutti_request_t *request,
				      struct why *why)
{
	const double start = now_s();

	count_blocks(team, total(team, counts) * numbers->size);
	return called(team, start,
		      tutti_reduce_scatter_v(team->comm, values,
					     own_block(team, numbers, values, counts), counts,
					     numbers->dtype, TUTTI_SUM, request),
		      "the reduce-scatter", why);
}

tutti_result_t team_start_gather(struct team *team, const struct numbers *numbers, void *values,
				 const size_t *counts, tutti_request_t *request, struct why *why)
{
	const double start = now_s();

	count_blocks(team, total(team, counts) * numbers->size);
	return called(team, start,
		      tutti_all_gather_v(team->comm, own_block(team, numbers, values, counts),
					 values, counts, NULL, numbers->dtype, request),
		      "the all-gather", why);
}

tutti_result_t team_wait(struct team *team, tutti_request_t *request, struct why *why)
{
	const double start = now_s();

	return called(team, start, tutti_wait(request), "waiting for other ranks", why);
}

tutti_result_t team_sum(struct team *team, double *values, size_t count, struct why *why)
{
	return team_start_sum(team, &numbers_f64, values, count, NULL, why);
}

tutti_result_t team_start_send(struct team *team, tutti_dtype_t dtype, const void *values,
			       size_t count, int peer, tutti_request_t *request, struct why *why)
{
	const double start = now_s();

	account_of(team)->bytes += count * tutti_dtype_size(dtype);
	return called(team, start, tutti_send(team->comm, values, count, dtype, peer, request),
		      "a message to a rank", why);
}

tutti_result_t team_start_receive(struct team *team, tutti_dtype_t dtype, void *values,
				  size_t count, int peer, tutti_request_t *request, struct why *why)
{
	const double start = now_s();

	account_of(team)->received += count * tutti_dtype_size(dtype);
	return called(team, start, tutti_recv(team->comm, values, count, dtype, peer, request),
		      "a message from a rank", why);
}

tutti_result_t team_ended(struct team *team, tutti_result_t result, const char *what,
			  struct why *why)
{
	return result == TUTTI_OK ? TUTTI_OK : communication_failed(team, result, what, why);
}

void team_be_patient(struct team *team, int times)
{
	const tutti_call_t call = { sizeof(call),
				    fmin(times * tutti_comm_timeout(team->comm), 1e9) };

	tutti_next_call(team->comm, &call);
}

tutti_result_t team_share_out(struct team *team, const struct numbers *numbers, const void *all,
			      const size_t *counts, void *mine, struct why *why)
{
	const double start = now_s();

	return called(team, start,
		      tutti_scatter_v(team->comm, all, counts, NULL, mine, counts[team->rank],
				      numbers->dtype, 0, NULL),
		      "the scatter", why);
}

tutti_result_t team_collect(struct team *team, const struct numbers *numbers, const void *mine,
			    const size_t *counts, void *all, struct why *why)
{
	const double start = now_s();

	return called(team, start,
		      tutti_gather_v(team->comm, mine, counts[team->rank], all, counts, NULL,
				     numbers->dtype, 0, NULL),
		      "the gather", why);
}

tutti_result_t team_broadcast(struct team *team, const void *send, void *recv, size_t bytes,
			      int root, struct why *why)
{
	const double start = now_s();

	return called(team, start,
		      tutti_broadcast(team->comm, send, recv, bytes, TUTTI_UINT8, root, NULL),
		      "the broadcast", why);
}

tutti_result_t team_exchange(struct team *team, const float *send, const size_t *to, float *recv,
			     const size_t *from, struct why *why)
{
	const double start = now_s();

	return called(team, start,
		      tutti_all_to_all_v(team->comm, send, to, NULL, recv, from, NULL,
					 TUTTI_FLOAT32, NULL),
		      "the exchange of samples", why);
}

tutti_result_t team_gather(struct team *team, const void *mine, void *all, size_t bytes,
			   struct why *why)
{
	const double start = now_s();

	return called(team, start,
		      tutti_all_gather(team->comm, mine, all, bytes, TUTTI_UINT8, NULL),
		      "the all-gather", why);
}

tutti_result_t team_bind_gpu(struct team *team, int device, struct why *why)
{
	const double start = now_s();

	return called(team, start, tutti_cuda_bind(team->comm, device), "binding to a GPU", why);
}

tutti_result_t team_share_gpu_memory(struct team *team, void *memory, size_t bytes, struct why *why)
{
	const double start = now_s();
	tutti_cuda_window_t window; /* the communicator's end is the window's */

	return called(team, start, tutti_cuda_register(team->comm, memory, bytes, &window),
		      "sharing the gradients' memory", why);
}

tutti_result_t team_sum_on_gpu(struct team *team, double *values, size_t count,
			       tutti_cuda_stream_t stream, struct why *why)
{
	const double start = now_s();

	count_sum(team, count * sizeof(*values));
	return called(team, start,
		      tutti_cuda_all_reduce(team->comm, values, values, count, TUTTI_FLOAT64,
					    TUTTI_SUM, stream),
		      "the all-reduce", why);
}

tutti_result_t team_check(struct team *team, struct why *why)
{
	return called(team, now_s(), tutti_comm_error(team->comm, NULL), "the all-reduce", why);
}

void team_message_plan(const struct team *team, int peer, char algorithm[32], char transports[32])
{
	const char *transport = tutti_comm_transport(team->comm, peer);

	snprintf(algorithm, 32, "messages");
	snprintf(transports, 32, "%s", transport ? transport : "");
}

void team_last_plan(const struct team *team, char algorithm[32], char transports[32])
{
	tutti_plan_info_t info = { .size = sizeof(info) };

	*algorithm = *transports = '\0';
	if (team->size == 1 || tutti_comm_last_plan(team->comm, &info) != TUTTI_OK)
		return;
	snprintf(algorithm, 32, "%s", info.algorithm);
	snprintf(transports, 32, "%s", info.transports);
}

/* What ranks exchange in team_agree(); the result is 0, or a checksum of the error message. */
enum { AGREE_RESULT, AGREE_OPTIONS, AGREE_DATA, AGREE_FIELDS };

/* "1, 2 and 3 more" of the ranks whose `field` is `value`, or is not; "" if there are none. How
 * many they are. */
static int list_ranks(const uint64_t *all, int size, int fields, int field, bool is, uint64_t value,
		      char *text, size_t capacity)
{
	size_t used = 0;
	int listed = 0, others = 0;

	*text = '\0';
	for (int r = 0; r < size; r++) {
		if ((all[r * fields + field] == value) != is)
			continue;
		if (++listed > 8) {
			others++;
			continue;
		}
		used += (size_t)snprintf(text + used, capacity - used, "%s%d", used ? ", " : "", r);
	}
	if (others)
		snprintf(text + used, capacity - used, " and %d more", others);
	return listed;
}

static tutti_result_t judge(const uint64_t *all, int size, tutti_result_t mine, struct why *why)
{
	char ranks[128];

	list_ranks(all, size, AGREE_FIELDS, AGREE_RESULT, false, 0, ranks, sizeof(ranks));
	if (mine != TUTTI_OK)
		return mine;
	if (*ranks)
		return why_set(why, TUTTI_ERR_INVALID,
			       "cannot go on: rank %s could not start; its own message says why",
			       ranks);
	list_ranks(all, size, AGREE_FIELDS, AGREE_OPTIONS, false, all[AGREE_OPTIONS], ranks,
		   sizeof(ranks));
	if (*ranks)
		return why_set(why, TUTTI_ERR_INVALID,
			       "rank %s has other options than rank 0; start all ranks alike",
			       ranks);
	list_ranks(all, size, AGREE_FIELDS, AGREE_DATA, false, all[AGREE_DATA], ranks,
		   sizeof(ranks));
	if (*ranks)
		return why_set(why, TUTTI_ERR_INVALID,
			       "rank %s read other data than rank 0; give all hosts the same files",
			       ranks);
	return TUTTI_OK;
}

/* Find the ranks with the same error, or without one like this rank. The lowest of them prints it.
 */
static void find_alike(const struct team *team, const uint64_t *all, struct alike *out)
{
	const uint64_t mine = all[team->rank * AGREE_FIELDS + AGREE_RESULT];
	char ranks[sizeof(out->ranks) - 8];

	for (int r = 0; r < team->rank && !out->repeats; r++)
		out->repeats = all[r * AGREE_FIELDS + AGREE_RESULT] == mine;
	if (list_ranks(all, team->size, AGREE_FIELDS, AGREE_RESULT, true, mine, ranks,
		       sizeof(ranks)) == team->size)
		snprintf(out->ranks, sizeof(out->ranks), "all ranks");
	else
		snprintf(out->ranks, sizeof(out->ranks), "rank %s", ranks);
}

tutti_result_t team_agree(struct team *team, tutti_result_t mine, uint64_t options, uint64_t data,
			  struct alike *alike, struct why *why)
{
	const uint64_t failure =
		mine == TUTTI_OK ? 0 : hash_bytes(0, why->text, strlen(why->text)) | 1;
	const uint64_t told[AGREE_FIELDS] = { failure, options, data };
	uint64_t *all = calloc((size_t)team->size, sizeof(told));
	struct why lost;
	tutti_result_t result;

	if (!all)
		return why_no_memory(why, "the ranks' answers");
	result = team_gather(team, told, all, sizeof(told), &lost);
	if (result == TUTTI_OK) {
		result = judge(all, team->size, mine, why);
		if (alike)
			find_alike(team, all, alike);
	} else if (mine == TUTTI_OK) {
		*why = lost;
	} else {
		result = mine;
	}
	free(all);
	return result;
}

/* The slow path of team_verify(), once it is known that some rank differs. */
static tutti_result_t name_different(struct team *team, uint64_t hash, size_t step, struct why *why)
{
	uint64_t *all = calloc((size_t)team->size, sizeof(*all));
	char ranks[128];
	tutti_result_t result;

	if (!all)
		return why_no_memory(why, "the ranks' checksums");
	result = team_gather(team, &hash, all, sizeof(hash), why);
	if (result == TUTTI_OK) {
		list_ranks(all, team->size, 1, 0, false, all[0], ranks, sizeof(ranks));
		result = why_set(why, TUTTI_ERR_MISMATCH,
				 "step %zu: the weights of rank %s differ from those of rank 0; "
				 "expected the same bits on every rank",
				 step, ranks);
	}
	free(all);
	return result;
}

tutti_result_t team_verify(struct team *team, const void *weights, size_t bytes, size_t step,
			   struct why *why)
{
	const uint64_t hash = hash_bytes(0, weights, bytes);
	uint64_t ends[2] = { hash, ~hash }; /* the smallest, and the complement of the largest */
	const double start = now_s();
	const tutti_result_t result =
		called(team, start,
		       tutti_all_reduce(team->comm, ends, ends, 2, TUTTI_UINT64, TUTTI_MIN, NULL),
		       "the comparison of weights", why);

	if (result != TUTTI_OK || ends[0] == ~ends[1])
		return result;
	return name_different(team, hash, step, why);
}
