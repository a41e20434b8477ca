/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what carries an agreement: messages on the links of the control channel, one with each rank
 * that is asked, notes over the control graph for what everybody must learn, and the list of
 * those who are gone.
 *
 * Who is gone is known from the transports, once all that it sent before has been read. Over TCP
 * a rank watches a few others only, so each loss goes round as a note; and so does whom an
 * agreement left out, since a rank that comes after the others have left finds nobody to answer
 * on its links. Streams go on from one agreement to the next. */
#include "council.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "log.h"

#define NOTE_MAGIC 0x636f756eu
#define DOZE_MS	   20	      /* between looks at who died */
#define FLUSH_NS   1000000000 /* for peers to take the last message */
#define DOUBT_NS                                                                                   \
	100000000 /* what another says of a rank may come before that rank's last
		   * words */

enum note_kind { NOTE_GONE = 1, NOTE_LEFT_OUT };

struct note {
	uint32_t magic, kind;
	int32_t rank;
	uint32_t instance;
	uint8_t unused[TT_NOTE_BYTES - 16];
};
static_assert(sizeof(struct note) == TT_NOTE_BYTES, "a note is a note");

struct bytes {
	uint8_t *at;
	size_t used, capacity;
};

struct councillor {
	struct bytes out, in;
	size_t sent; /* of out */
	bool deaf;   /* its link takes nothing more, for good; what it sent before is still read */
	bool gone;
	uint64_t gone_at; /* when to believe what another said; or 0 */
};

struct tt_council {
	struct tutti_comm *comm;
	uint32_t instance;
	bool left_out; /* by the others, for good */
	bool no_memory;
	struct tt_agree *agree;	  /* at the moment */
	struct councillor with[]; /* [size] */
};

/* ---- the list of those who are gone, and notes */

static void tell(struct tutti_comm *comm, enum note_kind kind, int rank, uint32_t instance)
{
	const struct note note = {
		.magic = NOTE_MAGIC, .kind = kind, .rank = rank, .instance = instance
	};

	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->tell(comm->endpoints[i], &note);
}

/* This rank can take no further part, here or in later agreements: nobody is to wait for it. */
static void quit(struct tt_council *council)
{
	council->left_out = true;
	tell(council->comm, NOTE_GONE, council->comm->rank, 0);
}

static void lose(struct tt_council *council, int rank)
{
	if (council->with[rank].gone)
		return;
	council->with[rank].gone = true;
	if (council->agree)
		tt_agree_lost(council->agree, rank);
	tell(council->comm, NOTE_GONE, rank, 0);
}

static struct tt_council *council_of(struct tutti_comm *comm)
{
	if (!comm->council) {
		comm->council = calloc(1, sizeof(*comm->council) +
						  (size_t)comm->size * sizeof(struct councillor));
		if (comm->council)
			comm->council->comm = comm;
	}
	return comm->council;
}

void tt_council_note(struct tutti_comm *comm, const void *bytes)
{
	struct tt_council *council;
	struct note note;

	memcpy(&note, bytes, sizeof(note));
	if (note.magic != NOTE_MAGIC || note.rank < 0 || note.rank >= comm->size)
		return;
	council = council_of(comm);
	if (!council)
		return; /* without memory it will take part in no agreement */
	if (note.rank != comm->rank && note.kind == NOTE_GONE && !council->with[note.rank].gone_at)
		council->with[note.rank].gone_at = tt_now() + DOUBT_NS;
	else if (note.rank == comm->rank &&
		 (note.kind == NOTE_GONE || note.instance >= council->instance))
		council->left_out = true;
}

static void hear_notes(struct tutti_comm *comm)
{
	uint8_t note[TT_NOTE_BYTES];

	for (int i = 0; i < comm->nendpoints; i++)
		while (comm->endpoints[i]->ops->hear(comm->endpoints[i], note))
			tt_council_note(comm, note);
}

static bool is_lost(const struct tutti_comm *comm, int rank)
{
	struct tt_endpoint *endpoint = comm->endpoints[comm->via[rank]];

	return endpoint->ops->lost(endpoint, rank);
}

/* ---- messages */

static bool make_space(struct bytes *bytes, size_t capacity)
{
	if (capacity <= bytes->capacity)
		return true;
	uint8_t *at = realloc(bytes->at, capacity);

	if (!at)
		return false;
	bytes->at = at;
	bytes->capacity = capacity;
	return true;
}

static void keep_to_send(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	struct tt_council *council = context;
	struct councillor *with = &council->with[to];
	struct bytes *out = &with->out;

	if (with->gone || with->deaf)
		return;
	if (!make_space(out, out->used + sizeof(*head) + head->length)) {
		council->no_memory = true;
		return;
	}
	memcpy(out->at + out->used, head, sizeof(*head));
	if (head->length)
		memcpy(out->at + out->used + sizeof(*head), body, head->length);
	out->used += sizeof(*head) + head->length;
}

static struct tt_link *link_with(const struct tutti_comm *comm, int rank)
{
	return comm->connections[rank * TT_CHANNELS + TT_CHANNEL_CONTROL].link;
}

/* True if something was sent. */
static bool send_kept(struct tt_council *council, int rank)
{
	struct tt_link *link = link_with(council->comm, rank);
	struct councillor *with = &council->with[rank];
	const size_t before = with->sent;

	while (!with->gone && !with->deaf && with->sent < with->out.used) {
		const struct iovec iov = { with->out.at + with->sent, with->out.used - with->sent };
		const ssize_t moved = link->ops->write(link, &iov, 1);

		if (moved == 0)
			break;
		if (moved < 0)
			with->deaf = true;
		else
			with->sent += (size_t)moved;
	}
	const bool some = with->sent > before;
	if (with->deaf || with->sent == with->out.used)
		with->sent = with->out.used = 0;
	return some;
}

/* One read towards the next message. Bytes, 0 or an error. */
static ssize_t read_some(struct tt_council *council, int rank)
{
	struct tt_link *link = link_with(council->comm, rank);
	struct bytes *in = &council->with[rank].in;
	struct tt_agree_head head;
	size_t wanted = sizeof(head);

	if (in->used >= sizeof(head)) {
		memcpy(&head, in->at, sizeof(head));
		wanted += head.length;
	}
	if (!make_space(in, wanted)) {
		council->no_memory = true;
		return 0;
	}
	const struct iovec iov = { in->at + in->used, wanted - in->used };
	const ssize_t moved = link->ops->read(link, &iov, 1);
	if (moved > 0)
		in->used += (size_t)moved;
	return moved;
}

/* Hand over the message if it is complete. False: it is none. */
static bool hand_over(struct tt_council *council, int rank, uint64_t now)
{
	struct bytes *in = &council->with[rank].in;
	struct tt_agree_head head;

	if (in->used < sizeof(head))
		return true;
	memcpy(&head, in->at, sizeof(head));
	if (!tt_agree_is_head(&head, council->comm->size))
		return false;
	if (in->used < sizeof(head) + head.length)
		return true;
	in->used = 0;
	return tt_agree_hear(council->agree, rank, &head, in->at + sizeof(head), now);
}

/* Read all that has come from the rank; what follows the decision is for the next agreement.
 * True if something had. */
static bool read_all(struct tt_council *council, int rank, uint64_t now)
{
	const uint64_t gone_at = council->with[rank].gone_at;
	const bool lost = is_lost(council->comm, rank) || (gone_at && now >= gone_at);
	bool some = false;
	ssize_t moved = 0;

	while (!council->no_memory && tt_agree_state(council->agree) == TT_AGREE_OPEN) {
		moved = read_some(council, rank);
		if (moved <= 0)
			break;
		some = true;
		if (!hand_over(council, rank, now)) {
			moved = TUTTI_ERR_INVALID;
			break;
		}
	}
	if (moved < 0 || (lost && moved == 0))
		lose(council, rank);
	return some;
}

/* ---- an agreement */

static bool is_asked(const struct tt_council *council, const bool *among, int rank)
{
	return among[rank] && rank != council->comm->rank && !council->with[rank].gone;
}

/* A rank that cannot be reached any more is gone. */
static tutti_result_t connect_all(struct tt_council *council, const bool *among)
{
	for (int rank = 0; rank < council->comm->size; rank++) {
		struct tt_connection *connection;

		if (!is_asked(council, among, rank))
			continue;
		const tutti_result_t result =
			tt_comm_connection(council->comm, rank, TT_CHANNEL_CONTROL, &connection);
		if (result == TUTTI_ERR_NO_MEMORY || result == TUTTI_ERR_SYSTEM)
			return result;
		if (result)
			lose(council, rank);
	}
	return TUTTI_OK;
}

/* True if something moved. */
static bool pass(struct tt_council *council, const bool *among)
{
	const uint64_t now = tt_now();
	bool moved = false;

	tt_comm_check(council->comm, true);
	hear_notes(council->comm);
	for (int rank = 0; rank < council->comm->size; rank++)
		if (is_asked(council, among, rank))
			moved |= read_all(council, rank, now);
	tt_agree_step(council->agree, now);
	for (int rank = 0; rank < council->comm->size; rank++)
		if (is_asked(council, among, rank))
			moved |= send_kept(council, rank);
	return moved;
}

static bool is_over(const struct tt_council *council)
{
	return council->no_memory || council->left_out ||
	       tt_agree_state(council->agree) != TT_AGREE_OPEN;
}

static void converse(struct tt_council *council, const bool *among)
{
	struct tutti_comm *comm = council->comm;

	while (!is_over(council)) {
		if (pass(council, among))
			continue;
		tt_comm_arm(comm);
		if (!pass(council, among) && !is_over(council))
			tt_comm_sleep(comm, DOZE_MS);
		tt_comm_disarm(comm);
	}
}

static bool all_sent(struct tt_council *council, const bool *among)
{
	bool all = true;

	for (int rank = 0; rank < council->comm->size; rank++) {
		if (!is_asked(council, among, rank))
			continue;
		send_kept(council, rank);
		if (is_lost(council->comm, rank))
			continue;
		all &= council->with[rank].out.used == 0 ||
		       !link_with(council->comm, rank)->ops->ready(link_with(council->comm, rank));
	}
	return all;
}

/* The last message is out before this rank does anything else, unless a rank does not take it. */
static void flush(struct tt_council *council, const bool *among)
{
	const uint64_t enough = tt_now() + FLUSH_NS;

	while (!all_sent(council, among) && tt_now() < enough) {
		tt_comm_check(council->comm, true);
		tt_comm_arm(council->comm);
		if (!all_sent(council, among))
			tt_comm_sleep(council->comm, DOZE_MS);
		tt_comm_disarm(council->comm);
	}
}

/* Those who are alive may come one day: they are told, and so is everybody who still believes in
 * the communicator. */
static void leave_out_late(struct tt_council *council)
{
	struct tutti_comm *comm = council->comm;

	for (int rank = 0; rank < comm->size; rank++) {
		struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT, .rank = rank };

		if (!tt_agree_was_late(council->agree, rank))
			continue;
		tt_log(WARN, COMM, "rank %d did not answer in time and is left out", rank);
		tell(comm, NOTE_LEFT_OUT, rank, council->instance);
		snprintf(
			fault.text, sizeof(fault.text),
			"rank %d did not come to tutti_comm_shrink by the deadline of %g s, or was silent for longer in the middle",
			rank, (double)comm->settings.timeout_ns / 1e9);
		tt_comm_revoke(comm, &fault);
	}
}

static tutti_result_t open_agreement(struct tt_council *council, const bool *among,
				     uint64_t coming_ns, const void *said, size_t length)
{
	const struct tt_agree_config config = {
		.rank = council->comm->rank,
		.size = council->comm->size,
		.instance = council->instance + 1,
		.among = among,
		.coming_ns = coming_ns,
		.answer_ns = council->comm->settings.timeout_ns,
		.said = said,
		.length = length,
		.send = keep_to_send,
		.context = council,
	};
	tutti_result_t result = connect_all(council, among);

	if (!result)
		result = tt_agree_open(&config, tt_now(), &council->agree);
	if (result)
		return result;
	council->instance++;
	for (int rank = 0; rank < council->comm->size; rank++)
		if (council->with[rank].gone)
			tt_agree_lost(council->agree, rank);
	return TUTTI_OK;
}

static tutti_result_t fail_left_out(const struct tt_council *council)
{
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"rank %d came too late, or was silent for too long: the other ranks have gone on without it",
		council->comm->rank);
}

static tutti_result_t agree(struct tt_council *council, const bool *among, uint64_t coming_ns,
			    const void *said, size_t length)
{
	tutti_result_t result;

	if (council->left_out)
		return fail_left_out(council);
	council->no_memory = false;
	result = open_agreement(council, among, coming_ns, said, length);
	if (result)
		return result;
	converse(council, among);
	const enum tt_agree_state state = tt_agree_state(council->agree);

	if (council->no_memory || state == TT_AGREE_NO_MEMORY) {
		quit(council); /* after a decision, too: not all may have been told of it */
		return tt_fail(
			TUTTI_ERR_NO_MEMORY, COMM,
			"rank %d has no memory to agree with the others, who go on without it",
			council->comm->rank);
	}
	council->left_out |= state == TT_AGREE_LEFT_OUT;
	if (state == TT_AGREE_DECIDED)
		leave_out_late(council);
	flush(council, among);
	return council->left_out ? fail_left_out(council) : TUTTI_OK;
}

tutti_result_t tt_council_agree(struct tutti_comm *comm, const bool *among, uint64_t coming_ns,
				const void *said, size_t length, struct tt_agree **out)
{
	tutti_result_t result;

	pthread_mutex_lock(&comm->lock);
	struct tt_council *council = council_of(comm);
	if (!council)
		result = tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks to agree",
				 comm->size);
	else
		result = agree(council, among, coming_ns, said, length);
	if (!result)
		*out = council->agree;
	else if (council)
		tt_agree_close(council->agree);
	if (council)
		council->agree = NULL;
	pthread_mutex_unlock(&comm->lock);
	return result;
}

void tt_council_quit(struct tutti_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	if (comm->council)
		quit(comm->council);
	pthread_mutex_unlock(&comm->lock);
}

bool tt_council_misses(struct tutti_comm *comm, const bool *among)
{
	bool missing = false;

	pthread_mutex_lock(&comm->lock);
	tt_comm_check(comm, true);
	hear_notes(comm);
	for (int rank = 0; rank < comm->size; rank++)
		if (among[rank] && rank != comm->rank)
			missing |= comm->council->with[rank].gone ||
				   comm->council->with[rank].gone_at || is_lost(comm, rank);
	pthread_mutex_unlock(&comm->lock);
	return missing;
}

void tt_council_free(struct tutti_comm *comm)
{
	struct tt_council *council = comm->council;

	for (int rank = 0; council && rank < comm->size; rank++) {
		free(council->with[rank].out.at);
		free(council->with[rank].in.at);
	}
	free(council);
	comm->council = NULL;
}
