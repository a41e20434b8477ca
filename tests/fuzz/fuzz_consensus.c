/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes to rank 1 of three over the links and as notes while they agree twice: streams of
 * bytes that need not be messages. The input: the length of rank 0's stream and of the notes, 2
 * bytes each, the stream, the notes, and the stream of rank 2. A rank is lost when its stream has
 * ended. */
#include <string.h>

#include "agreement.h"
#include "consensus.h"
#include "fuzz.h"
#include "report.h"

enum { RANKS = 3, ME = 1 };

struct stream {
	const uint8_t *at;
	size_t left;
};

static struct stream from[RANKS], notes;

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
	struct stream *stream = &from[link->peer];
	const size_t capacity = iov[0].iov_len < 100 ? iov[0].iov_len : 100,
		     bytes = stream->left < capacity ? stream->left : capacity;

	FUZZ_PROMISE(n == 1);
	if (bytes)
		memcpy(iov[0].iov_base, stream->at, bytes);
	stream->at += bytes;
	stream->left -= bytes;
	return (ssize_t)bytes;
}

static bool is_ready(const struct tt_link *link)
{
	return false;
}

static tutti_result_t connect_to(struct tt_endpoint *endpoint, int peer, enum tt_channel channel,
				 struct tt_link **out)
{
	static struct tt_link links[RANKS];

	links[peer] = (struct tt_link){ endpoint->ops, endpoint, peer };
	*out = &links[peer];
	return TUTTI_OK;
}

static void progress(struct tt_endpoint *endpoint, bool thorough)
{
}

static bool has_ended(struct tt_endpoint *endpoint, int peer)
{
	return from[peer].left == 0;
}

static void tell(struct tt_endpoint *endpoint, const void *note)
{
}

static bool hear(struct tt_endpoint *endpoint, void *note)
{
	if (notes.left < TT_NOTE_BYTES)
		return false;
	memcpy(note, notes.at, TT_NOTE_BYTES);
	notes.at += TT_NOTE_BYTES;
	notes.left -= TT_NOTE_BYTES;
	return true;
}

static void revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_TIMEOUT && fault->rank >= 0 && fault->rank < RANKS);
}

static void do_nothing(struct tt_endpoint *endpoint)
{
}

static void sleep_not_at_all(struct tt_endpoint *endpoint, int timeout_ms)
{
}

static struct tutti_comm *new_comm(struct tt_endpoint *endpoint)
{
	struct tutti_comm *comm = calloc(1, sizeof(*comm));

	FUZZ_PROMISE(comm);
	pthread_mutex_init(&comm->lock, NULL);
	comm->rank = ME;
	comm->size = RANKS;
	comm->settings.timeout_ns = 1000000;
	FUZZ_PROMISE(tt_comm_fault_open(comm));
	comm->agreement->ns = UINT64_C(1) << 40; /* nothing is reported yet */
	comm->endpoints[0] = endpoint;
	comm->nendpoints = 1;
	comm->routes.via = calloc(RANKS, sizeof(*comm->routes.via));
	comm->routes.connections = calloc(RANKS, sizeof(*comm->routes.connections));
	FUZZ_PROMISE(comm->routes.via && comm->routes.connections);
	return comm;
}

static void free_comm(struct tutti_comm *comm)
{
	tt_consensus_free(comm);
	tt_comm_fault_free(comm);
	pthread_mutex_destroy(&comm->lock);
	free(comm->routes.via);
	for (int rank = 0; rank < RANKS; rank++)
		free(comm->routes.connections[rank]);
	free(comm->routes.connections);
	free(comm);
}

static void check(const struct tt_agree *agreed)
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

static void cut(struct stream *out, const uint8_t **at, size_t *left, size_t wanted)
{
	const size_t bytes = wanted < *left ? wanted : *left;

	*out = (struct stream){ *at, bytes };
	*at += bytes;
	*left -= bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tt_transport_control control = {
		.lost = has_ended, .send = tell, .receive = hear, .revoke = revoke
	};
	static const struct tt_transport_doorbell doorbell = { .arm = do_nothing,
							       .disarm = do_nothing,
							       .sleep = sleep_not_at_all };
	static const struct tt_transport ops = { .name = "fuzz",
						 .connect = connect_to,
						 .write = send_nowhere,
						 .read = read_stream,
						 .ready = is_ready,
						 .progress = progress,
						 .control = &control,
						 .doorbell = &doorbell };
	const bool among[RANKS] = { true, true, true };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tutti_comm *comm = new_comm(&endpoint);
	uint16_t lengths[2] = { 0 };

	if (size >= sizeof(lengths)) {
		memcpy(lengths, data, sizeof(lengths));
		data += sizeof(lengths);
		size -= sizeof(lengths);
	}
	cut(&from[0], &data, &size, lengths[0]);
	cut(&notes, &data, &size, lengths[1]);
	cut(&from[2], &data, &size, size);
	for (int i = 0; i < 2; i++) {
		struct tt_agree *agreed = NULL;

		if (tt_consensus_agree(comm, among, 1000000, "me", 2, &agreed) != TUTTI_OK)
			break;
		check(agreed);
		tt_agree_close(agreed);
	}
	free_comm(comm);
	return 0;
}
