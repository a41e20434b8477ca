/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes to a rank from peers that say anything, while it agrees, waits and serves one-sided
 * calls. */
#include <string.h>

#include "agree.h"
#include "agreement.h"
#include "consensus.h"
#include "fault.h"
#include "fuzz.h"
#include "notes.h"
#include "report.h"
#include "windows.h"

#include "../fake_transport.h"

/* ---- messages of an agreement, from any of the others, between turns of the rank that hears
 * them: heads whose numbers are the input's and bodies cut from it */

#define SIZE 9 /* the sets of ranks have two bytes */
#define WHO  3

enum { ASK = 8, ALIVE, KINDS };

/* What stands before each body. */
struct turn {
	uint8_t from, kind, instance, ballot, other, lost;
	uint16_t length, wait;
};

/* Notes whom a sign of life goes to, and no more. */
static void forget(void *context, int to, const struct tt_agree_head *head, const void *body)
{
	int *alive_to = context;

	FUZZ_PROMISE(to >= 0 && to < SIZE && to != WHO);
	FUZZ_PROMISE(tt_agree_is_head(head, SIZE));
	if (head->kind == ALIVE)
		*alive_to = to;
}

static void check_agree(const struct tt_agree *agree)
{
	bool in = false;
	int last = -1;

	if (tt_agree_state(agree) != TT_AGREE_DECIDED)
		return;
	for (int i = 0; i < tt_agree_count(agree); i++) {
		const struct tt_agreed member = tt_agree_member(agree, i);
		uint32_t sum = 0;

		FUZZ_PROMISE(member.rank > last && member.rank < SIZE &&
			     member.length <= TT_AGREE_SAID_MAX);
		for (size_t k = 0; k < member.length; k++)
			sum += member.said[k]; /* it can be read */
		in |= member.rank == WHO || sum == UINT32_MAX;
		last = member.rank;
	}
	for (int rank = 0; rank < SIZE; rank++)
		tt_agree_was_late(agree, rank);
	FUZZ_PROMISE(in);
}

/* Who asks for a sign of life gets one, at once, and nobody else does. */
static void receive(struct tt_agree *agree, const struct tt_agree_config *config, int from,
		    const struct tt_agree_head *head, const void *body, uint64_t now)
{
	const bool asks = head->kind == ASK && head->instance == config->instance &&
			  config->among[from] && tt_agree_state(agree) == TT_AGREE_OPEN;
	int *alive_to = config->context;

	*alive_to = -1;
	tt_agree_receive(agree, from, head, body, now);
	FUZZ_PROMISE(*alive_to == (asks ? from : -1));
}

FUZZ(agree)
{
	int alive_to = -1;
	bool among[SIZE] = { true, true, true, true, false, true, true, true, true };
	const struct tt_agree_config config = { .rank = WHO,
						.size = SIZE,
						.instance = 1,
						.among = among,
						.coming_ns = 1000,
						.answer_ns = 1000,
						.said = "me",
						.length = 2,
						.send = forget,
						.context = &alive_to };
	struct fuzz_in in = { data, size };
	struct tt_agree_head head;
	struct tt_agree *agree;
	struct turn turn;
	uint64_t now = 1;

	if (size >= sizeof(head)) {
		memcpy(&head, data, sizeof(head));
		FUZZ_PROMISE(!tt_agree_is_head(&head, SIZE) ||
			     head.length <= tt_agree_body_max(SIZE));
	}
	FUZZ_PROMISE(tt_agree_open(&config, now, &agree) == TUTTI_OK);
	while (fuzz_take(&in, &turn, sizeof(turn)) == sizeof(turn)) {
		const struct fuzz_in cut = fuzz_cut(&in, turn.length);
		const size_t length = cut.left;
		uint8_t *body = fuzz_copy(cut.at, length);

		head = (struct tt_agree_head){ .magic = 0x61677265u,
					       .kind = turn.kind % KINDS,
					       .instance = turn.instance % 3u,
					       .length = (uint32_t)length,
					       .ballot = turn.ballot,
					       .other = turn.other };
		now += turn.wait;
		if (tt_agree_is_head(&head, SIZE) && turn.from % SIZE != WHO)
			receive(agree, &config, turn.from % SIZE, &head, body, now);
		free(body);
		if (turn.lost < SIZE && turn.lost != WHO)
			tt_agree_lost(agree, turn.lost);
		tt_agree_step(agree, now);
		check_agree(agree);
	}
	tt_agree_close(agree);
}

/* ---- a communicator whose links and notes are the input's */

static struct fuzz_in notes;

static bool hear(struct tt_endpoint *endpoint, void *note)
{
	return notes.left >= TT_NOTE_BYTES && fuzz_take(&notes, note, TT_NOTE_BYTES);
}

static struct tutti_comm *new_comm(int rank, int size, struct tt_endpoint *endpoint)
{
	struct tutti_comm *comm = calloc(1, sizeof(*comm));

	FUZZ_PROMISE(comm);
	pthread_mutex_init(&comm->lock, NULL);
	comm->rank = rank;
	comm->size = size;
	comm->endpoints[0] = endpoint;
	comm->nendpoints = 1;
	FUZZ_PROMISE(tt_comm_fault_open(comm));
	comm->agreement->ns = UINT64_C(1) << 40; /* nothing is reported yet */
	return comm;
}

static void free_comm(struct tutti_comm *comm)
{
	tt_consensus_free(comm);
	tt_comm_fault_free(comm);
	pthread_mutex_destroy(&comm->lock);
	free(comm->routes.via);
	for (int rank = 0; comm->routes.connections && rank < comm->size; rank++)
		free(comm->routes.connections[rank]);
	free(comm->routes.connections);
	free(comm);
}

/* ---- what comes to rank 1 of three over the links and as notes while they agree twice: streams
 * of bytes that need not be messages. The input: the length of rank 0's stream and of the notes, 2
 * bytes each, the stream, the notes, and the stream of rank 2. A rank is lost when its stream has
 * ended */

enum { RANKS = 3, ME = 1 };

static struct fuzz_in from[RANKS];

static ssize_t send_nowhere(struct tt_link *link, const struct iovec *iov, int n)
{
	ssize_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += (ssize_t)iov[i].iov_len;
	return bytes;
}

/* Some bytes at a time: messages come in parts. */
static ssize_t read_stream(struct tt_link *link, const struct iovec *iov, int n)
{
	const size_t wanted = iov[0].iov_len < 100 ? iov[0].iov_len : 100;

	FUZZ_PROMISE(n == 1);
	return (ssize_t)fuzz_take(&from[link->peer], iov[0].iov_base, wanted);
}

static bool is_ready(const struct tt_link *link)
{
	return false;
}

static bool has_ended(struct tt_endpoint *endpoint, int peer)
{
	return from[peer].left == 0;
}

static void tell(struct tt_endpoint *endpoint, const void *note)
{
	uint8_t told[TT_NOTE_BYTES];

	memcpy(told, note, sizeof(told)); /* all of it is there to be read */
}

static void revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_TIMEOUT && fault->rank >= 0 && fault->rank < RANKS);
}

static void check_agreed(const struct tt_agree *agreed)
{
	bool in = false;
	int last = -1;

	for (int i = 0; i < tt_agree_count(agreed); i++) {
		const struct tt_agreed member = tt_agree_member(agreed, i);

		FUZZ_PROMISE(member.rank > last && member.rank < RANKS &&
			     member.length <= TT_AGREE_SAID_MAX);
		tt_report_judge(member.said, member.length, member.rank, "fuzz");
		in |= member.rank == ME;
		last = member.rank;
	}
	FUZZ_PROMISE(in);
}

FUZZ(consensus)
{
	static const struct tt_transport_control control = {
		.lost = has_ended, .send = tell, .receive = hear, .revoke = revoke
	};
	static const struct tt_transport ops = { FAKE_TRANSPORT, .write = send_nowhere,
						 .read = read_stream, .ready = is_ready,
						 .control = &control };
	const bool among[RANKS] = { true, true, true };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tutti_comm *comm = new_comm(ME, RANKS, &endpoint);
	struct fuzz_in in = { data, size };
	uint16_t lengths[2];

	comm->settings.timeout_ns = 1000000;
	comm->routes.via = calloc(RANKS, sizeof(*comm->routes.via));
	comm->routes.connections = calloc(RANKS, sizeof(*comm->routes.connections));
	FUZZ_PROMISE(comm->routes.via && comm->routes.connections);
	fuzz_take(&in, lengths, sizeof(lengths));
	from[0] = fuzz_cut(&in, lengths[0]);
	notes = fuzz_cut(&in, lengths[1]);
	from[2] = in;
	for (int i = 0; i < 2; i++) {
		struct tt_agree *agreed = NULL;

		if (tt_consensus_agree(comm, among, 1000000, "me", 2, &agreed) != TUTTI_OK)
			break;
		check_agreed(agreed);
		tt_agree_close(agreed);
	}
	free_comm(comm);
}

/* ---- what ranks tell each other when a wait gets long: notes of TT_NOTE_BYTES from neighbours
 * that say anything, to rank 1 of four, which remembers its last two calls */

enum { NEIGHBOURS = 4 };

static void hear_of_mismatch(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH);
	FUZZ_PROMISE(fault->rank >= 0 && fault->rank < NEIGHBOURS);
	FUZZ_PROMISE(memchr(fault->text, '\0', sizeof(fault->text)));
}

FUZZ(notes)
{
	static const struct tt_transport_control control = { .receive = hear,
							     .send = tell,
							     .revoke = hear_of_mismatch };
	static const struct tt_transport ops = { FAKE_TRANSPORT, .control = &control };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tutti_comm *comm = new_comm(1, NEIGHBOURS, &endpoint);

	comm->next_seq = 3;
	FUZZ_PROMISE(tt_notes_open(comm));
	for (uint64_t seq = 1; seq < comm->next_seq; seq++) {
		const struct tt_op_header header = { .magic = TT_OP_HEADER_MAGIC,
						     .rank = 1,
						     .seq = seq,
						     .count = 4096,
						     .root = -1,
						     .op = 0,
						     .collective = 1,
						     .dtype = TUTTI_FLOAT32 };

		tt_notes_remember(comm, &header);
	}
	notes = (struct fuzz_in){ data, size };
	tt_notes_exchange(comm, NULL, false, 1);
	FUZZ_PROMISE(tt_notes_last_called(comm, comm->rank) == 0); /* nobody speaks for this rank */
	tt_notes_free(comm);
	free_comm(comm);
}

/* ---- what comes to rank 1 of two on the link of one-sided calls: frames that need not be ones.
 * The input: a byte, whose last bit says that every header begins as a frame does; then the
 * stream, of which so many of the last bytes come behind the end of the window as the byte says. Rank 1 has
 * a window, waits for answers, and sends no more than it is let */

enum { PAIR = 2, BYTES = 200, SIGNALS = 3, GOT = 70 };

static struct fuzz_in frames;
static bool framed, refused;
static uint8_t header[sizeof(struct tt_frame)];

/* A little now and then. */
static ssize_t write_some(struct tt_link *link, const struct iovec *iov, int n)
{
	FUZZ_PROMISE(n > 0 && iov[0].iov_len > 0);
	return (ssize_t)(frames.left % 3 == 0 ? 0 : iov[0].iov_len < 50 ? iov[0].iov_len : 50);
}

static ssize_t read_some(struct tt_link *link, const struct iovec *iov, int n)
{
	const size_t wanted = iov[0].iov_len < 30 ? iov[0].iov_len : 30;

	return (ssize_t)fuzz_take(&frames, iov[0].iov_base, wanted);
}

static ssize_t peek(struct tt_link *link, size_t want, size_t limit, const void **data)
{
	struct tt_frame frame;

	FUZZ_PROMISE(want == sizeof(header));
	if (frames.left < sizeof(header))
		return 0;
	memcpy(&frame, frames.at, sizeof(frame));
	if (framed) {
		frame.magic = TT_FRAME_MAGIC;
		frame.kind %= TT_FRAME_KINDS;
		frame.tag %= TT_WINDOW_ASKED + 1;
		frame.window %= 3;
	}
	memcpy(header, &frame, sizeof(header));
	*data = header;
	return sizeof(header);
}

static void release(struct tt_link *link, size_t bytes)
{
	FUZZ_PROMISE(fuzz_cut(&frames, bytes).left == bytes);
}

static void hear_of_frame(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH && fault->rank == 0);
	refused = true; /* and nothing is served any more */
}

static struct tutti_window *new_window(struct tutti_comm *comm)
{
	struct tutti_window *window = calloc(1, sizeof(*window) + PAIR * sizeof(window->part[0]));

	FUZZ_PROMISE(window);
	window->comm = comm;
	window->number = 1;
	window->part[ME] = (struct tt_window_part){ .bytes = BYTES,
						    .signals = SIGNALS,
						    .memory = calloc(1, BYTES),
						    .counter = calloc(SIGNALS, 8) };
	FUZZ_PROMISE(window->part[ME].memory && window->part[ME].counter);
	return window;
}

static void free_window(struct tutti_window *window)
{
	free(window->part[ME].memory);
	free(window->part[ME].counter);
	free(window);
}

/* A call of each kind that waits for an answer, by tags 0, 1, 2. */
static void ask(struct tt_window_peer *peer, struct tt_op *ops, struct tt_window_call *calls,
		uint8_t *got)
{
	static const enum tt_one_sided_kind kinds[] = { TT_GET, TT_FETCH_ADD, TT_FLUSH };

	for (int i = 0; i < 3; i++) {
		calls[i] = (struct tt_window_call){ .kind = kinds[i],
						    .stage = TT_SENT,
						    .bytes = i == 0 ? GOT : 8,
						    .answers = i == 2 };
		ops[i] = (struct tt_op){ .window_call = &calls[i], .recv = got };
		peer->asked[i] = (struct tt_asked){ &ops[i], 4 };
	}
	peer->sent = 4;
}

static void serve_all(struct tutti_comm *comm)
{
	while (!refused && frames.left > 0) {
		const size_t before = frames.left;

		tt_windows_serve(comm, true);
		if (frames.left == before)
			return;
	}
}

FUZZ(window)
{
	static const struct tt_transport_control control = { .revoke = hear_of_frame };
	static const struct tt_transport ops = { FAKE_TRANSPORT,     .write = write_some,
						 .read = read_some,  .peek = peek,
						 .release = release, .control = &control };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tt_link link = { &ops, &endpoint, 0 };
	struct tt_connection connection = { .link = &link };
	struct tutti_comm *comm = new_comm(ME, PAIR, &endpoint);
	struct tt_windows *windows = calloc(1, sizeof(*windows) + PAIR * sizeof(windows->peer[0]));
	struct tt_window_peer *peer = calloc(1, sizeof(*peer));
	uint8_t *got = malloc(GOT);
	struct tt_op asking[3];
	struct tt_window_call calls[3];

	uint8_t head;

	FUZZ_PROMISE(windows && peer && got);
	frames = (struct fuzz_in){ data, size };
	refused = false;
	fuzz_take(&frames, &head, 1);
	framed = head & 1;
	comm->windows = windows;
	windows->peer[0] = peer;
	windows->all = (struct tutti_window *[]){ NULL, new_window(comm) };
	windows->count = 2;
	peer->connection = &connection;
	ask(peer, asking, calls, got);
	const size_t late = head / 2 < frames.left ? head / 2 : frames.left;
	const struct fuzz_in rest = { frames.at + frames.left - late, late };

	frames.left -= late;
	serve_all(comm);
	FUZZ_PROMISE(peer->answer_count <= TT_WINDOW_ASKED && peer->flushed <= peer->sent);
	if (!refused)
		tt_window_close(windows->all[1]);
	free_window(windows->all[1]);
	windows->all[1] = NULL;
	frames = rest;
	serve_all(comm);
	free(peer->outbox.ring);
	free(peer);
	free(windows);
	free(got);
	free_comm(comm);
}
