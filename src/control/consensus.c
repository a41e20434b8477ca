/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what carries an agreement: messages on the links of the control channel, one with each rank
 * that is asked, notes over the control graph for what everybody must learn, and the list of
 * those who are gone.
 *
 * The transports know which ranks are gone, once all that it sent before has been read. Over TCP
 * a rank watches a few others only, so each loss goes round as a note; and so does whom an
 * agreement left out, since a rank that comes after the others have left finds nobody to answer
 * on its links. Streams go on from one agreement to the next. */
#include "consensus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "log.h"
#include "numbers.h"

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

struct tt_consensus {
	struct tutti_comm *comm;
	uint32_t instance;
	bool left_out;		  /* by the others, for good … */
	bool given_up;		  /* … as they take it for gone, whatever they decided before */
	bool untold;		  /* they may have decided that it is there, and it did not hear */
	bool ended;		  /* by tutti_comm_abort(), since the agreements began */
	tutti_result_t lacks;	  /* what this rank itself has no memory or descriptors for */
	bool quiet;		  /* tells nobody whom it finds gone */
	struct tt_agree *agree;	  /* at the moment */
	uint64_t clock, looked;	  /* the agreement's time; what tt_now() was then */
	struct councillor with[]; /* [size] */
};

/* ---- the list of those who are gone, and notes */

static void tell(struct tutti_comm *comm, enum note_kind kind, int rank, uint32_t instance)
{
	const struct note note = {
		.magic = NOTE_MAGIC, .kind = kind, .rank = rank, .instance = instance
	};

	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->control->send(comm->endpoints[i], &note);
}

/* This rank can take no further part, here or in later agreements: nobody is to wait for it. */
static void quit(struct tt_consensus *consensus)
{
	consensus->left_out = consensus->untold = true;
	tell(consensus->comm, NOTE_GONE, consensus->comm->rank, 0);
}

static void lose(struct tt_consensus *consensus, int rank)
{
	if (consensus->with[rank].gone)
		return;
	consensus->with[rank].gone = true;
	if (consensus->agree)
		tt_agree_lost(consensus->agree, rank);
	if (!consensus->quiet)
		tell(consensus->comm, NOTE_GONE, rank, 0);
}

static struct tt_consensus *consensus_of(struct tutti_comm *comm)
{
	if (!comm->consensus) {
		comm->consensus = calloc(1, sizeof(*comm->consensus) +
						    (size_t)comm->size * sizeof(struct councillor));
		if (comm->consensus)
			comm->consensus->comm = comm;
	}
	return comm->consensus;
}

void tt_consensus_note(struct tutti_comm *comm, const void *bytes)
{
	struct tt_consensus *consensus;
	struct note note;

	memcpy(&note, bytes, sizeof(note));
	if (note.magic != NOTE_MAGIC || note.rank < 0 || note.rank >= comm->size)
		return;
	consensus = consensus_of(comm);
	if (!consensus)
		return; /* without memory it will take part in no agreement */
	if (note.rank != comm->rank && note.kind == NOTE_GONE &&
	    !consensus->with[note.rank].gone_at)
		consensus->with[note.rank].gone_at = tt_now() + DOUBT_NS;
	else if (note.rank == comm->rank && note.kind == NOTE_GONE)
		consensus->left_out = consensus->given_up = true;
	else if (note.rank == comm->rank && note.instance >= consensus->instance)
		consensus->left_out = true;
}

static void receive_notes(struct tutti_comm *comm)
{
	uint8_t note[TT_NOTE_BYTES];

	for (int i = 0; i < comm->nendpoints; i++)
		while (comm->endpoints[i]->ops->control->receive(comm->endpoints[i], note))
			tt_consensus_note(comm, note);
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

static void lack_memory(struct tt_consensus *consensus)
{
	consensus->lacks =
		tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
			"rank %d has no memory to agree with the others, who go on without it",
			consensus->comm->rank);
}

static void keep_to_send(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	struct tt_consensus *consensus = context;
	struct councillor *with = &consensus->with[to];
	struct bytes *out = &with->out;

	if (with->gone || with->deaf)
		return;
	if (!make_space(out, out->used + sizeof(*head) + head->length)) {
		lack_memory(consensus);
		return;
	}
	memcpy(out->at + out->used, head, sizeof(*head));
	if (head->length)
		memcpy(out->at + out->used + sizeof(*head), body, head->length);
	out->used += sizeof(*head) + head->length;
}

static struct tt_link *link_with(const struct tutti_comm *comm, int rank)
{
	const struct tt_connection *with = comm->routes.connections[rank];

	return with ? with[TT_CHANNEL_CONTROL].link : NULL;
}

/* True if something was sent. */
static bool send_kept(struct tt_consensus *consensus, int rank)
{
	struct tt_link *link = link_with(consensus->comm, rank);
	struct councillor *with = &consensus->with[rank];
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
static ssize_t read_some(struct tt_consensus *consensus, int rank)
{
	struct tt_link *link = link_with(consensus->comm, rank);
	struct bytes *in = &consensus->with[rank].in;
	struct tt_agree_head head;
	size_t wanted = sizeof(head);

	if (in->used >= sizeof(head)) {
		memcpy(&head, in->at, sizeof(head));
		wanted += head.length;
	}
	if (!make_space(in, wanted)) {
		lack_memory(consensus);
		return 0;
	}
	const struct iovec iov = { in->at + in->used, wanted - in->used };
	const ssize_t moved = link->ops->read(link, &iov, 1);
	if (moved > 0)
		in->used += (size_t)moved;
	return moved;
}

/* Hand over the message if it is complete. False: it is none. */
static bool hand_over(struct tt_consensus *consensus, int rank)
{
	struct bytes *in = &consensus->with[rank].in;
	struct tt_agree_head head;

	if (in->used < sizeof(head))
		return true;
	memcpy(&head, in->at, sizeof(head));
	if (!tt_agree_is_head(&head, consensus->comm->size))
		return false;
	if (in->used < sizeof(head) + head.length)
		return true;
	in->used = 0;
	return tt_agree_receive(consensus->agree, rank, &head, in->at + sizeof(head),
				consensus->clock);
}

/* Read all that has come from the rank; what follows the decision is for the next agreement.
 * True if something had. */
static bool read_all(struct tt_consensus *consensus, int rank, uint64_t now)
{
	const uint64_t gone_at = consensus->with[rank].gone_at;
	const bool lost = tt_comm_has_lost(consensus->comm, rank) || (gone_at && now >= gone_at);
	bool some = false;
	ssize_t moved = 0;

	while (!consensus->lacks && tt_agree_state(consensus->agree) == TT_AGREE_OPEN &&
	       !tt_agree_has_told(consensus->agree, rank)) {
		moved = read_some(consensus, rank);
		if (moved <= 0)
			break;
		some = true;
		if (!hand_over(consensus, rank)) {
			moved = TUTTI_ERR_INVALID;
			break;
		}
	}
	if (moved == TUTTI_ERR_SYSTEM || moved == TUTTI_ERR_NO_MEMORY)
		consensus->lacks = (tutti_result_t)moved; /* and nobody is gone */
	else if (moved < 0 || (lost && moved == 0))
		lose(consensus, rank);
	return some;
}

/* ---- an agreement */

static bool is_asked(const struct tt_consensus *consensus, const bool *among, int rank)
{
	return among[rank] && rank != consensus->comm->rank && !consensus->with[rank].gone;
}

/* A rank that cannot be reached any more is gone. */
static tutti_result_t connect_all(struct tt_consensus *consensus, const bool *among)
{
	for (int rank = 0; rank < consensus->comm->size; rank++) {
		struct tt_connection *connection;

		if (!is_asked(consensus, among, rank))
			continue;
		const tutti_result_t result =
			tt_comm_connection(consensus->comm, rank, TT_CHANNEL_CONTROL, &connection);
		if (result == TUTTI_ERR_NO_MEMORY || result == TUTTI_ERR_SYSTEM)
			return result;
		if (result)
			lose(consensus, rank);
	}
	return TUTTI_OK;
}

static void look_at_clock(struct tt_consensus *consensus, uint64_t now)
{
	const uint64_t part = consensus->comm->settings.timeout_ns / 4,
		       most = part < TT_LOOK_NS ? part : TT_LOOK_NS;

	consensus->clock += now - consensus->looked - tt_uncounted(consensus->looked, now, most);
	consensus->looked = now;
}

/* True if something had come. */
static bool read_from_all(struct tt_consensus *consensus, const bool *among, uint64_t now)
{
	bool some = false;

	for (int rank = 0; rank < consensus->comm->size; rank++)
		if (is_asked(consensus, among, rank))
			some |= read_all(consensus, rank, now);
	return some;
}

/* True if something moved. */
static bool pass(struct tt_consensus *consensus, const bool *among)
{
	const uint64_t now = tt_now();

	look_at_clock(consensus, now);
	tt_comm_check(consensus->comm, true);
	receive_notes(consensus->comm);
	if (consensus->left_out) /* it decides nothing by itself any more */
		return true;
	bool moved = read_from_all(consensus, among, now);
	tt_agree_step(consensus->agree, consensus->clock);
	for (int rank = 0; rank < consensus->comm->size; rank++)
		if (is_asked(consensus, among, rank))
			moved |= send_kept(consensus, rank);
	return moved;
}

static bool is_over(const struct tt_consensus *consensus)
{
	return consensus->lacks || consensus->left_out || consensus->ended ||
	       tt_agree_state(consensus->agree) != TT_AGREE_OPEN;
}

static void converse(struct tt_consensus *consensus, const bool *among)
{
	struct tutti_comm *comm = consensus->comm;

	while (!is_over(consensus)) {
		if (pass(consensus, among))
			continue;
		tt_comm_arm(comm);
		if (!pass(consensus, among) && !is_over(consensus))
			tt_comm_sleep(comm, DOZE_MS);
		tt_comm_disarm(comm);
	}
}

static bool may_hear(const struct tt_consensus *consensus, const bool *among)
{
	bool some = false;

	for (int rank = 0; rank < consensus->comm->size; rank++)
		some |= is_asked(consensus, among, rank);
	return some && !consensus->lacks && tt_agree_state(consensus->agree) == TT_AGREE_OPEN;
}

/* The others take this rank for gone, and say so faster than what they decided before is here: that
 * counts. Whom it finds gone it tells nobody: it may be its own links that have ended. */
static void hear_out(struct tt_consensus *consensus, const bool *among)
{
	struct tutti_comm *comm = consensus->comm;
	const bool quiet = consensus->quiet;
	const uint64_t enough = tt_now() + DOUBT_NS;
	bool more = true;

	consensus->quiet = true;
	while (more && may_hear(consensus, among)) {
		const uint64_t now =
			tt_now(); /* before the links are read, for the last time, too */

		tt_comm_check(comm, true);
		tt_comm_arm(comm);
		const bool some = read_from_all(consensus, among, now);
		tt_agree_settle(consensus->agree);
		more = some || now < enough;
		if (!some && more)
			tt_comm_sleep(comm, DOZE_MS);
		tt_comm_disarm(comm);
	}
	consensus->quiet = quiet;
}

static bool all_sent(struct tt_consensus *consensus, const bool *among)
{
	bool all = true;

	for (int rank = 0; rank < consensus->comm->size; rank++) {
		if (!is_asked(consensus, among, rank))
			continue;
		send_kept(consensus, rank);
		if (tt_comm_has_lost(consensus->comm, rank))
			continue;
		all &= consensus->with[rank].out.used == 0 ||
		       !link_with(consensus->comm, rank)
				->ops->ready(link_with(consensus->comm, rank));
	}
	return all;
}

/* The last message is out before this rank does anything else, unless a rank does not take it. */
static void flush(struct tt_consensus *consensus, const bool *among)
{
	uint64_t now = tt_now(), enough = now + FLUSH_NS;

	while (!all_sent(consensus, among) && now < enough) {
		tt_comm_check(consensus->comm, true);
		tt_comm_arm(consensus->comm);
		if (!all_sent(consensus, among))
			tt_comm_sleep(consensus->comm, DOZE_MS);
		tt_comm_disarm(consensus->comm);
		const uint64_t before = now;
		now = tt_now();
		enough += tt_uncounted(before, now, TT_LOOK_NS);
	}
}

/* Those who are alive may come one day: they are told, and so is everybody who still believes in
 * the communicator. */
static void leave_out_late(struct tt_consensus *consensus)
{
	struct tutti_comm *comm = consensus->comm;

	for (int rank = 0; rank < comm->size; rank++) {
		struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT, .rank = rank };

		if (!tt_agree_was_late(consensus->agree, rank))
			continue;
		tt_log(WARN, COMM, "rank %d did not answer in time and is left out", rank);
		tell(comm, NOTE_LEFT_OUT, rank, consensus->instance);
		tt_print(
			fault.text, sizeof(fault.text),
			"rank %d did not come to tutti_comm_shrink by the deadline of %g s, or was silent for longer in the middle",
			rank, (double)comm->settings.timeout_ns / 1e9);
		tt_comm_revoke(comm, &fault);
	}
}

static tutti_result_t open_agreement(struct tt_consensus *consensus, const bool *among,
				     uint64_t coming_ns, const void *said, size_t length)
{
	const struct tt_agree_config config = {
		.rank = consensus->comm->rank,
		.size = consensus->comm->size,
		.instance = consensus->instance + 1,
		.among = among,
		.coming_ns = coming_ns,
		.answer_ns = consensus->comm->settings.timeout_ns,
		.said = said,
		.length = length,
		.send = keep_to_send,
		.context = consensus,
	};
	tutti_result_t result = connect_all(consensus, among);

	consensus->clock = consensus->looked = tt_now();
	if (!result)
		result = tt_agree_open(&config, consensus->clock, &consensus->agree);
	if (result)
		return result;
	consensus->instance++;
	for (int rank = 0; rank < consensus->comm->size; rank++)
		if (consensus->with[rank].gone)
			tt_agree_lost(consensus->agree, rank);
	return TUTTI_OK;
}

static tutti_result_t fail_left_out(const struct tt_consensus *consensus)
{
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"rank %d came too late, or was silent for too long: the other ranks have gone on without it",
		consensus->comm->rank);
}

static tutti_result_t fail_ended(const struct tt_consensus *consensus)
{
	return tt_fail(
		TUTTI_ERR_ABORTED, COMM,
		"rank %d called tutti_comm_abort() while it waited for the other ranks: they go on without it",
		consensus->comm->rank);
}

static tutti_result_t agree(struct tt_consensus *consensus, const bool *among, uint64_t coming_ns,
			    const void *said, size_t length)
{
	tutti_result_t result;

	if (consensus->left_out)
		return fail_left_out(consensus);
	consensus->lacks = TUTTI_OK;
	result = open_agreement(consensus, among, coming_ns, said, length);
	if (result)
		return result;
	converse(consensus, among);
	if (consensus->given_up)
		hear_out(consensus, among);
	const enum tt_agree_state state = tt_agree_state(consensus->agree);

	if (state == TT_AGREE_NO_MEMORY)
		lack_memory(consensus);
	else if (consensus->ended && state == TT_AGREE_OPEN && !consensus->left_out)
		consensus->lacks = fail_ended(consensus);
	if (consensus->lacks) {
		quit(consensus); /* after a decision, too: not all may have been told of it */
		return consensus->lacks;
	}
	consensus->untold |=
		state == TT_AGREE_UNTOLD || (state == TT_AGREE_OPEN && consensus->given_up);
	consensus->left_out |= state == TT_AGREE_UNTOLD || state == TT_AGREE_LEFT_OUT;
	if (state == TT_AGREE_DECIDED)
		leave_out_late(consensus);
	flush(consensus, among);
	return state == TT_AGREE_DECIDED ? TUTTI_OK : fail_left_out(consensus);
}

static tutti_result_t fail_no_memory(const struct tutti_comm *comm)
{
	return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for %d ranks to agree", comm->size);
}

tutti_result_t tt_consensus_agree(struct tutti_comm *comm, const bool *among, uint64_t coming_ns,
				  const void *said, size_t length, struct tt_agree **out)
{
	tutti_result_t result;

	tt_comm_lock(comm);
	struct tt_consensus *consensus = consensus_of(comm);
	if (!consensus)
		result = fail_no_memory(comm);
	else
		result = agree(consensus, among, coming_ns, said, length);
	if (!result)
		*out = consensus->agree;
	else if (consensus)
		tt_agree_close(consensus->agree);
	if (consensus)
		consensus->agree = NULL;
	pthread_mutex_unlock(&comm->lock);
	return result;
}

void tt_consensus_begin(struct tutti_comm *comm)
{
	tt_comm_lock(comm);
	if (consensus_of(comm)) /* or the agreement says that there is no memory */
		comm->consensus->ended = false;
	pthread_mutex_unlock(&comm->lock);
}

void tt_consensus_end(struct tutti_comm *comm)
{
	if (comm->consensus)
		comm->consensus->ended = true;
}

void tt_consensus_quit(struct tutti_comm *comm)
{
	tt_comm_lock(comm);
	if (comm->consensus)
		quit(comm->consensus);
	pthread_mutex_unlock(&comm->lock);
}

/* Memory for what it is to know of others, as long as there is some. */
static struct tt_consensus *reserve(struct tutti_comm *comm)
{
	tt_comm_lock(comm);
	struct tt_consensus *consensus = consensus_of(comm);
	pthread_mutex_unlock(&comm->lock);
	return consensus;
}

tutti_result_t tt_consensus_complete(struct tutti_comm *comm, struct tutti_comm *before,
				     struct tt_agree **out)
{
	bool *all = malloc((size_t)comm->size * sizeof(*all));
	struct tt_consensus *consensus = reserve(comm);

	if (!all || !consensus || (before && !reserve(before))) {
		free(all);
		return fail_no_memory(comm);
	}
	for (int rank = 0; rank < comm->size; rank++)
		all[rank] = true;
	consensus->quiet = true; /* this thread alone loses anybody, as it agrees */
	const tutti_result_t result =
		tt_consensus_agree(comm, all, comm->settings.timeout_ns, NULL, 0, out);
	consensus->quiet = false;
	free(all);
	tt_comm_lock(comm);
	const bool untold = consensus->untold;
	pthread_mutex_unlock(&comm->lock);
	if (result && before && untold)
		tt_consensus_quit(before);
	return result;
}

bool tt_consensus_misses(struct tutti_comm *comm, const bool *among)
{
	tt_comm_lock(comm);
	tt_comm_check(comm, true);
	receive_notes(comm);
	bool missing = comm->consensus->ended;
	for (int rank = 0; rank < comm->size; rank++)
		if (among[rank] && rank != comm->rank)
			missing |= comm->consensus->with[rank].gone ||
				   comm->consensus->with[rank].gone_at ||
				   tt_comm_has_lost(comm, rank);
	pthread_mutex_unlock(&comm->lock);
	return missing;
}

void tt_consensus_free(struct tutti_comm *comm)
{
	struct tt_consensus *consensus = comm->consensus;

	for (int rank = 0; consensus && rank < comm->size; rank++) {
		free(consensus->with[rank].out.at);
		free(consensus->with[rank].in.at);
	}
	free(consensus);
	comm->consensus = NULL;
}
