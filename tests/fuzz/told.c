/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other while they meet, grow, split and fail, as others read it: functions
 * on memory. */
#include <errno.h>
#include <string.h>

#include "cuda/cliques.h"
#include "endpoint.h"
#include "exchange.h"
#include "failure.h"
#include "fuzz.h"
#include "grow.h"
#include "join_slots.h"
#include "log.h"
#include "model_file.h"
#include "op_header.h"
#include "record.h"
#include "report.h"
#include "shm.h"
#include "split.h"
#include "tcp.h"
#include "transport.h"
#include "unix_socket.h"

/* ---- cliques of GPUs, by what ranks tell of whom they reach and why not, whatever that is. The
 * input: ranks:1 hosts:1, then for each rank its bits and its text as far as it goes */

#define GPUS 80 /* more than bits */

static void check_cliques(const struct tutti_comm *comm, const struct tt_cuda_cliques *found)
{
	int members[GPUS] = { 0 }, most = 0;

	FUZZ_PROMISE(found->count >= 1 && found->count <= comm->size);
	for (int rank = 0; rank < comm->size; rank++) {
		FUZZ_PROMISE(found->of[rank] >= 0 && found->of[rank] < found->count);
		most = ++members[found->of[rank]] > most ? members[found->of[rank]] : most;
	}
	FUZZ_PROMISE(found->most == most && most <= TT_CUDA_RANKS);
	for (int a = 0; a < comm->size; a++)
		for (int b = 0; b < a; b++)
			FUZZ_PROMISE(found->of[a] != found->of[b] ||
				     comm->topology.host[a] == comm->topology.host[b]);
	fuzz_promise_text(found->why, sizeof(found->why));
}

FUZZ(cliques)
{
	struct fuzz_in in = { data, size };
	uint8_t head[2];

	fuzz_take(&in, head, sizeof(head));
	const int ranks = 1 + head[0] % GPUS, hosts = 1 + head[1] % 3;
	const size_t bytes = (size_t)ranks * sizeof(struct tt_cuda_accessible);
	struct tt_cuda_accessible *reached = malloc(bytes);
	struct tt_cuda_cliques found = { .of = calloc((size_t)ranks, sizeof(int)) };
	struct tt_cuda_clique *scratch = calloc((size_t)ranks, sizeof(*scratch));
	struct tutti_comm *comm = calloc(1, sizeof(*comm));
	int host[GPUS], local[GPUS], met[3] = { 0 };

	FUZZ_PROMISE(reached && found.of && scratch && comm);
	fuzz_take(&in, reached, bytes);
	comm->size = ranks;
	comm->topology.host = host;
	for (int rank = 0; rank < ranks; rank++) {
		host[rank] = rank % hosts;
		local[rank] = met[host[rank]]++;
	}
	tt_cuda_agree_on_cliques(comm, reached, local, scratch, &found);
	check_cliques(comm, &found);
	free(comm);
	free(scratch);
	free(found.of);
	free(reached);
}

/* ---- a failure, and a fault, as another rank reports them. The input: result:4, then a text that
 * need not end; or a fault as it lies in shared memory */

static void check_failure(int32_t result, const char *text, size_t length)
{
	char *again = malloc(TT_ERROR_MAX);

	FUZZ_PROMISE(again);
	const tutti_result_t returned = tt_fail_reported(COMM, "fuzz: ", result, text, length);
	FUZZ_PROMISE(returned == (tt_failure_is_known(result) ? result : TUTTI_ERR_UNSUPPORTED));
	FUZZ_PROMISE(returned < 0 && returned >= TUTTI_ERR_UNSUPPORTED);
	for (size_t capacity = 1; capacity < 40; capacity += 13) {
		tt_failure_text(again, capacity, text, length);
		fuzz_promise_text(again, capacity);
	}
	tt_failure_text(again, TT_ERROR_MAX, text, length);
	fuzz_promise_text(again, TT_ERROR_MAX);
	char *once = strdup(again);
	FUZZ_PROMISE(once);
	tt_failure_text(again, TT_ERROR_MAX, again,
			TT_ERROR_MAX); /* in place, and what is printable stays */
	FUZZ_PROMISE(strcmp(again, once) == 0);
	free(once);
	free(again);
}

FUZZ(failure)
{
	struct fuzz_in in = { data, size };
	struct tt_fault *fault = malloc(sizeof(*fault));
	int32_t result;

	FUZZ_PROMISE(fault);
	fuzz_take(&(struct fuzz_in){ data, size }, fault, sizeof(*fault));
	if (tt_fault_check(fault, 4))
		FUZZ_PROMISE(tt_failure_is_known(fault->result) && fault->rank >= -1 &&
			     fault->rank < 4);
	fuzz_promise_text(fault->text, sizeof(fault->text));
	free(fault);
	if (fuzz_take(&in, &result, sizeof(result)) < sizeof(result))
		return;
	char *text = fuzz_copy(in.at, in.left);
	check_failure(result, text, in.left);
	free(text);
}

/* ---- what a communicator that grows hears from its ranks, and a newcomer and a coordinator from
 * a store that says anything. The input: the kind, then questions, a word, reports, or the values
 * that the store gives, each with its length before it */

#define RANKS 8

static struct fuzz_in in;

static void promise_result(tutti_result_t result)
{
	FUZZ_PROMISE(result <= TUTTI_IN_PROGRESS && result >= TUTTI_ERR_UNSUPPORTED);
	if (result < 0)
		fuzz_promise_text(tt_thread_error(), SIZE_MAX);
}

static void hear_members(void)
{
	struct tt_grow_question all[RANKS] = { { 0 } };
	struct tt_grow_decision *word = calloc(1, sizeof(*word));

	FUZZ_PROMISE(word);
	fuzz_take(&in, all, sizeof(all));
	if (tt_grow_read_questions(all, RANKS, 3, 2) == TUTTI_OK)
		for (int rank = 0; rank < RANKS; rank++)
			FUZZ_PROMISE(all[rank].newcomers == 2);
	fuzz_take(&in, word, sizeof(*word));
	const tutti_result_t result = tt_grow_read_decision(word, tt_bundle_capacity(RANKS));
	promise_result(result);
	FUZZ_PROMISE(result != TUTTI_OK ||
		     (word->length > 0 && word->length <= tt_bundle_capacity(RANKS)));
	free(word);
}

static void hear_reports(void)
{
	size_t lengths[3] = { 0 }, offsets[3];
	struct tt_records reports = { NULL, offsets, lengths };
	struct tt_report report;
	uint16_t given[3];

	fuzz_take(&in, given, sizeof(given));
	for (int i = 0; i < 3; i++)
		lengths[i] = given[i];
	if (tt_records_arrange(&reports, 3, 0, lengths[0]) != TUTTI_OK)
		return;
	reports.bytes = malloc(reports.used + !reports.used);
	FUZZ_PROMISE(reports.bytes);
	fuzz_take(&in, reports.bytes, reports.used);
	const tutti_result_t result = tt_reports_judge(&reports, 3, "fuzz");
	promise_result(result);
	FUZZ_PROMISE(result != TUTTI_IN_PROGRESS);
	for (int rank = 0; rank < 3 && !result; rank++)
		FUZZ_PROMISE(
			tt_report_read(reports.bytes + offsets[rank], lengths[rank], &report) &&
			!report.result);
	free(reports.bytes);
}

/* ---- a store */

static uint64_t token; /* that a newcomer has put there, as an invitation must have it */

static int set(void *context, const char *key, const void *value, size_t length)
{
	if (strstr(key, "/seat/") && length == sizeof(token))
		memcpy(&token, value, length);
	return 0;
}

/* The next value of the input, or an end of the store with it: none is waited for. */
static int get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	uint16_t given;

	if (fuzz_take(&in, &given, sizeof(given)) < sizeof(given))
		return EIO;
	if (given == UINT16_MAX && timeout_s <= 0)
		return ETIMEDOUT;
	const size_t bytes = given < in.left ? given : in.left;
	if (bytes > *length) {
		*length = bytes;
		return EMSGSIZE;
	}
	*length = fuzz_take(&in, value, bytes);
	if (strstr(key, "/taken/") && *length == sizeof(struct tt_invitation) && given % 2 == 0)
		memcpy(value, &token, sizeof(token));
	return 0;
}

static void be_newcomer(struct tt_join_slots *slots)
{
	struct tt_invitation invitation;
	struct tt_records records = { 0 };
	tutti_result_t result = tt_join_slots_apply(slots, tt_now() + 1000000, &invitation);

	promise_result(result);
	if (!result) {
		FUZZ_PROMISE(invitation.rank >= 0 && invitation.rank < invitation.size);
		result = tt_join_slots_await(slots, &invitation, NULL, &records);
		promise_result(result);
		for (int rank = 0; rank < invitation.size && !result; rank++)
			FUZZ_PROMISE(records.length[rank] <= TT_RECORD_MAX);
	}
	tt_records_free(&records);
}

static void be_coordinator(struct tt_join_slots *slots)
{
	struct tt_invitation invitation = { .id = 7, .rank = 2, .size = 3 };
	struct tt_report report;

	promise_result(tt_join_slots_invite(slots, &invitation, 0));
	if (tt_join_slots_receive(slots, &invitation, 0, &report) == TUTTI_OK) {
		FUZZ_PROMISE(tt_report_size(&report) <= sizeof(report));
		promise_result(tt_report_judge(&report, tt_report_size(&report), 2, "fuzz"));
	}
}

static void meet_in_store(bool newcomer)
{
	const tutti_store_ops_t ops = { .size = sizeof(ops), .set = set, .get = get };
	struct tt_join_slots slots;
	tutti_store_t store;

	FUZZ_PROMISE(tutti_store_create(&ops, NULL, &store) == TUTTI_OK);
	FUZZ_PROMISE(tt_join_slots_open(store, NULL, 0, "fuzz", &slots) == TUTTI_OK);
	if (newcomer)
		be_newcomer(&slots);
	else
		be_coordinator(&slots);
	tt_join_slots_close(&slots);
	tutti_store_close(store);
}

FUZZ(grow)
{
	uint8_t kind;

	in = (struct fuzz_in){ data, size };
	fuzz_take(&in, &kind, 1);
	switch (kind % 4) {
	case 0: hear_members(); break;
	case 1: hear_reports(); break;
	case 2: meet_in_store(true); break;
	default: meet_in_store(false);
	}
}

/* ---- headers of operations, from a link or a note: two of them, compared and described. What
 * follows is the table of counts that the first stands for; a table that is found by its digest
 * has that digest */

static void find(const struct tt_counts *own, const struct tt_counts_digest *digest)
{
	size_t *found = malloc((own->n + 1) * sizeof(*found));

	FUZZ_PROMISE(found);
	if (tt_counts_find(own, digest, found)) {
		const struct tt_counts table = { found, own->n };
		const struct tt_counts_digest again = tt_counts_digest(&table);

		FUZZ_PROMISE(memcmp(&again, digest, sizeof(again)) == 0);
	}
	free(found);
}

/* Numbers without a name are called unknown; an element may have any. */
static void promise_fault(const struct tt_fault *fault, const struct tt_op_header headers[2])
{
	static const char null[] = "(null)";

	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH);
	FUZZ_PROMISE(memchr(fault->text, '\0', sizeof(fault->text)));
	FUZZ_PROMISE(!strstr(fault->text, null) ||
		     memmem(headers, 2 * sizeof(*headers), null, strlen(null)));
}

FUZZ(op_header)
{
	struct fuzz_in rest = { data, size };
	struct tt_op_header headers[2];

	fuzz_take(&rest, headers, sizeof(headers));
	const size_t n = rest.left / sizeof(size_t);
	size_t *counts = fuzz_copy(rest.at, n * sizeof(*counts));
	const struct tt_counts table = { counts, n };
	const bool equal = tt_op_header_equal(&headers[0], &headers[1]);
	const struct tt_fault fault =
		tt_op_header_mismatch(&headers[0], &headers[1], rest.left ? &table : NULL);
	const struct tt_fault of_pair = tt_op_header_mismatch_of_pair(&headers[0], &headers[1]);
	const struct tt_counts_digest digest = { headers[1].count, headers[1].own,
						 headers[1].detail };

	FUZZ_PROMISE(equal == tt_op_header_equal(&headers[1], &headers[0]));
	FUZZ_PROMISE(!equal ||
		     tt_op_header_signature(&headers[0]) == tt_op_header_signature(&headers[1]));
	promise_fault(&fault, headers);
	promise_fault(&of_pair, headers);
	find(&table, &digest);
	free(counts);
}

/* ---- what a rank sends of itself, and the addresses behind it, as the others read them and their
 * transports use them. The input: key:1 rank:1 bytes; no input can bring the proof of a key */

/* As join() does. */
static void name_socket(const struct tt_peer *peer)
{
	struct shm_address address;
	struct sockaddr_un name;

	memcpy(&address, peer->address, sizeof(address));
	FUZZ_PROMISE(tt_unix_name("shm", address.socket, &name) <= sizeof(name));
}

static void look_for(const struct tt_record *record, const uint8_t *bytes, size_t length,
		     const struct tt_transport *transport)
{
	struct tt_peer *peers = calloc(2, sizeof(*peers));

	FUZZ_PROMISE(peers);
	tt_record_find_address(record, bytes, length, transport->name, &peers[0]);
	FUZZ_PROMISE(peers[0].address_length <= TT_ADDRESS_MAX);
	peers[1] = peers[0];
	if (transport->reach(&peers[0], &peers[1]) && transport == &tt_transport_shm)
		name_socket(&peers[0]);
	free(peers);
}

FUZZ(record)
{
	struct fuzz_in rest = { data, size };
	struct tt_record record;
	char host[TT_MACHINE_NAME];
	uint8_t head[2];

	fuzz_take(&rest, head, sizeof(head));
	const struct tt_key key = { .set = head[0] % 2, .bytes = { 1 } };
	const struct tt_record_from from = { &key, 7, head[1] % 3 };
	const size_t length = rest.left;
	uint8_t *bytes = fuzz_copy(rest.at, length); /* aligned, too */
	tt_record_is_coming(bytes, length);
	tt_record_host(bytes, length, host);
	FUZZ_PROMISE(memchr(host, 0, sizeof(host)));
	if (tt_record_read(&from, bytes, length, false, 1, &record) == TUTTI_OK) {
		FUZZ_PROMISE(!key.set && memchr(record.host_id, '\0', sizeof(record.host_id)));
		FUZZ_PROMISE(from.rank != 0 || tt_model_is_sane(&record.model));
		look_for(&record, bytes, length, &tt_transport_shm);
		look_for(&record, bytes, length, &tt_transport_tcp);
	} else {
		FUZZ_PROMISE(tt_thread_error()[0]);
	}
	free(bytes);
}

/* ---- a bundle of records of several ranks, and reports of one, as they come from a store, a
 * parent or an agreement */

/* What was packed is what comes out, whatever the records are. */
static void pack_again(const struct tt_record_from *maker, int count, struct tt_records *records)
{
	struct tt_records again = { 0 };
	struct tt_bundle bundle;

	FUZZ_PROMISE(tt_bundle_pack(maker, count, records, &bundle) == TUTTI_OK);
	FUZZ_PROMISE(bundle.length <= tt_bundle_capacity(count));
	FUZZ_PROMISE(tt_bundle_unpack(maker, count, bundle.bytes, bundle.length, 1, &again) ==
		     TUTTI_OK);
	for (int i = 0; i < count; i++)
		FUZZ_PROMISE(again.length[i] == records->length[i] &&
			     memcmp(again.bytes + again.offset[i],
				    records->bytes + records->offset[i], again.length[i]) == 0);
	tt_records_free(&again);
	free(bundle.bytes);
}

static void open_bundle(const uint8_t *data, size_t size, int count)
{
	const struct tt_record_from maker = { NULL, 7, 0 };
	struct tt_records records = { 0 };

	if (tt_bundle_unpack(&maker, count, data, size, 1, &records) == TUTTI_OK)
		pack_again(&maker, count, &records);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
	tt_records_free(&records);
}

FUZZ(records)
{
	struct tt_report report;

	for (int count = 1; count < 4; count++)
		open_bundle(data, size, count);
	if (tt_report_read(data, size, &report))
		FUZZ_PROMISE(tt_report_size(&report) == size && report.result <= 0 &&
			     report.length <= sizeof(report.bytes));
	tt_report_judge(data, size, 1, "fuzz");
}

/* ---- what ranks send each other while they split a communicator. The input: size:1 rank:1 mine,
 * then choices of all as far as they go, and the lengths of their records */

#define PARTED 16

static void check_choices(int size, int rank)
{
	struct tt_split_choice *choices = malloc((size_t)size * sizeof(*choices)), mine;
	int *members = malloc((size_t)size * sizeof(*members));
	struct tt_split_part part = { members, 0, 0 };
	bool seen[PARTED] = { false };

	FUZZ_PROMISE(choices && members);
	fuzz_take(&in, choices, (size_t)size * sizeof(*choices));
	fuzz_take(&in, &mine, sizeof(mine));
	if (in.left % 2) /* as it is where nobody has changed it */
		mine = choices[rank];
	if (tt_split_select(choices, size, rank, mine, &part) == TUTTI_OK) {
		FUZZ_PROMISE(mine.color < 0 ? part.count == 0
					    : part.count >= 1 && part.count <= size &&
						      members[part.place] == rank);
		for (int i = 0; i < part.count; i++) {
			const int member = members[i];

			FUZZ_PROMISE(member >= 0 && member < size && !seen[member] &&
				     choices[member].color == mine.color);
			FUZZ_PROMISE(i == 0 || choices[members[i - 1]].key < choices[member].key ||
				     (choices[members[i - 1]].key == choices[member].key &&
				      members[i - 1] < member));
			seen[member] = true;
		}
	}
	free(choices);
	free(members);
}

static void check_lengths(int size, int rank)
{
	size_t lengths[PARTED], offsets[PARTED];
	struct tt_records records = { NULL, offsets, lengths };

	fuzz_take(&in, lengths, (size_t)size * sizeof(*lengths));
	if (tt_records_arrange(&records, size, rank, lengths[rank]) != TUTTI_OK)
		return;
	FUZZ_PROMISE(records.used <= (size_t)size * TT_EXCHANGED_MAX);
	for (int i = 0; i < size; i++)
		FUZZ_PROMISE(offsets[i] + lengths[i] ==
			     (i + 1 < size ? offsets[i + 1] : records.used));
}

FUZZ(split)
{
	uint8_t head[2];

	in = (struct fuzz_in){ data, size };
	fuzz_take(&in, head, sizeof(head));
	const int ranks = 1 + head[0] % PARTED, rank = head[1] % ranks;

	check_choices(ranks, rank);
	check_lengths(ranks, rank);
}
