/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the endpoint and links of a rank of the suite, and the streams that are pumped through them.
 * Each byte follows from a seed and its place, so that a byte lost, doubled or swapped is seen
 * where it happens. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "transport_suite.h"

#define CHUNK	    (96u << 10)
#define PIECES	    7
#define IDLE_PASSES 30	       /* without a byte moved before it sleeps */
#define HEAD_BYTES  64	       /* of a message, peeked at before the rest is read in one piece */
#define FULL_LIMIT  (1u << 28) /* a link that takes more has no bound */
#define FULL_TRIES  2000       /* refusals in a row before it counts as full */

static void describe_self(struct suite_rank *rank, struct tt_peer *peer,
			  uint8_t address[TT_ADDRESS_MAX])
{
	*peer = (struct tt_peer){
		.rank = rank->rank,
		.local_rank = rank->rank,
		.process = rank->stage->comm_id + (rank->process ? (uint64_t)rank->rank << 56 : 0),
		.pid = (int32_t)getpid(),
	};
	peer->address_length = (uint16_t)rank->ops->address(rank->endpoint, address);
}

/* Of the communicator. */
static int size_of(const struct suite_rank *rank)
{
	return rank->size + rank->elsewhere;
}

void suite_open(struct suite_rank *rank)
{
	const struct tt_endpoint_config config = {
		.comm_id = rank->stage->comm_id,
		.rank = rank->rank,
		.size = size_of(rank),
		.timeout_s = 20,
		.silence_s = 10,
		.key = rank->options->key,
	};
	uint8_t address[TT_ADDRESS_MAX];
	struct tt_peer self;

	suite_at(rank, "in open()");
	suite_require_ok(rank, rank->ops->open(&config, &rank->endpoint), "open()");
	suite_require(rank, rank->endpoint->ops == rank->ops,
		      "the endpoint does not begin with its own table");
	describe_self(rank, &self, address);
	suite_require(rank, self.address_length <= TT_ADDRESS_MAX,
		      "address() wrote %d bytes, %d are allowed", self.address_length,
		      TT_ADDRESS_MAX);
	pthread_mutex_lock(&rank->stage->lock);
	rank->stage->peers[rank->rank] = self;
	memcpy(rank->stage->addresses[rank->rank], address, sizeof(address));
	pthread_mutex_unlock(&rank->stage->lock);
	suite_barrier(rank);
	pthread_mutex_lock(&rank->stage->lock);
	memcpy(rank->peers, rank->stage->peers, sizeof(rank->peers));
	memcpy(rank->addresses, rank->stage->addresses, sizeof(rank->addresses));
	pthread_mutex_unlock(&rank->stage->lock);
	for (int i = 0; i < rank->size; i++) {
		rank->peers[i].use = i != rank->rank;
		rank->peers[i].address = rank->addresses[i];
	}
}

tutti_result_t suite_try_join(struct suite_rank *rank)
{
	suite_at(rank, "in join()");
	return rank->ops->join(rank->endpoint, rank->peers, size_of(rank), rank->stage->deadline);
}

void suite_join(struct suite_rank *rank)
{
	suite_require_ok(rank, suite_try_join(rank), "join()");
}

void suite_leave(struct suite_rank *rank)
{
	for (int peer = 0; peer < rank->size; peer++)
		for (int channel = 0; channel < TT_CHANNELS; channel++) {
			rank->ops->close(rank->links[peer][channel]);
			rank->links[peer][channel] = NULL;
		}
	rank->ops->destroy(rank->endpoint);
	rank->endpoint = NULL;
}

struct tt_link *suite_connect(struct suite_rank *rank, int peer, enum tt_channel channel)
{
	struct tt_link **link = &rank->links[peer][channel];

	suite_at(rank, "in connect() to rank %d, channel %d", peer, (int)channel);
	suite_require_ok(rank, rank->ops->connect(rank->endpoint, peer, channel, link),
			 "connect()");
	suite_require(rank,
		      (*link)->ops == rank->ops && (*link)->endpoint == rank->endpoint &&
			      (*link)->peer == peer,
		      "the link to rank %d does not begin with its table, endpoint and peer", peer);
	return *link;
}

struct tt_link *suite_connect_up(struct suite_rank *rank, enum tt_channel channel)
{
	struct tt_link *link = suite_connect(rank, 1 - rank->rank, channel);

	while (!rank->ops->ready(link)) {
		suite_at(rank, "waiting for the link with rank %d to be ready", link->peer);
		rank->ops->progress(rank->endpoint, true);
	}
	suite_barrier(rank);
	return link;
}

/* In an order of each rank's own. */
void suite_connect_all(struct suite_rank *rank)
{
	const int first = (int)random_below(&rank->random, (uint64_t)rank->size);

	for (int i = 0; i < rank->size * TT_CHANNELS; i++) {
		const int peer = (first + i) % rank->size;

		if (peer != rank->rank)
			suite_connect(rank, peer, (enum tt_channel)(i / rank->size));
	}
}

/* ---- streams */

static uint8_t byte_at(uint32_t seed, size_t place)
{
	return (uint8_t)(seed + place + (place >> 8) * 7 + (place >> 16) * 31);
}

struct suite_stream suite_stream(struct suite_rank *rank, int peer, enum tt_channel channel,
				 size_t out, size_t in)
{
	return (struct suite_stream){
		.link = rank->links[peer][channel],
		.out_seed = (uint32_t)(rank->rank * 37 + peer * 5 + (int)channel * 101),
		.in_seed = (uint32_t)(peer * 37 + rank->rank * 5 + (int)channel * 101),
		.out_total = out,
		.in_total = in,
	};
}

/* Cut what has not moved of the chunk into up to PIECES pieces, empty ones among them. */
static int split(struct suite_rank *rank, const struct suite_stream *stream,
		 const struct suite_chunk *chunk, struct iovec *iov)
{
	const int n = stream->whole ? 1 : (int)random_between(&rank->random, 1, PIECES);
	uint8_t *buffer = chunk->buffer + chunk->moved;
	size_t bytes = chunk->bytes - chunk->moved;

	for (int i = 0; i < n; i++) {
		const size_t piece = i == n - 1 ? bytes : random_between(&rank->random, 0, bytes);

		iov[i] = (struct iovec){ buffer, piece };
		buffer += piece;
		bytes -= piece;
	}
	return n;
}

/* Small chunks as often as large ones. */
static size_t chunk(struct suite_rank *rank, size_t left)
{
	const size_t most = random_one_in(&rank->random, 2) ? CHUNK : 200;

	return random_between(&rank->random, 1, left < most ? left : most);
}

/* The next chunk of a stream's bytes, of which `done` have moved; its memory is likely to be where
 * the last one's was. */
static struct suite_chunk new_chunk(struct suite_rank *rank, const struct suite_stream *stream,
				    size_t done, size_t total)
{
	const size_t whole = done < HEAD_BYTES ? HEAD_BYTES : total - done;
	struct suite_chunk new = { .bytes = stream->whole ? whole : chunk(rank, total - done) };

	new.buffer = calloc(1, new.bytes);
	suite_require(rank, new.buffer != NULL, "no memory of %zu bytes", new.bytes);
	return new;
}

/* So many bytes more have moved: they are the caller's again. */
static void chunk_moved(struct suite_chunk *chunk, size_t bytes)
{
	memset(chunk->buffer + chunk->moved, 0xee, bytes);
	chunk->moved += bytes;
	if (chunk->moved < chunk->bytes)
		return;
	free(chunk->buffer);
	chunk->buffer = NULL;
}

static bool write_some(struct suite_rank *rank, struct suite_stream *stream)
{
	struct suite_chunk *out = &stream->out;
	struct iovec iov[PIECES];

	if (!out->buffer) {
		*out = new_chunk(rank, stream, stream->out_done, stream->out_total);
		for (size_t i = 0; i < out->bytes; i++)
			out->buffer[i] = byte_at(stream->out_seed, stream->out_done + i);
	}
	const size_t bytes = out->bytes - out->moved;
	const ssize_t wrote = rank->ops->write(stream->link, iov, split(rank, stream, out, iov));
	suite_require(rank, wrote >= 0, "write() to rank %d after %zu bytes: %s",
		      stream->link->peer, stream->out_done, tt_thread_error());
	suite_require(rank, (size_t)wrote <= bytes, "write() of %zu bytes moved %zd", bytes, wrote);
	chunk_moved(out, (size_t)wrote);
	stream->out_done += (size_t)wrote;
	return wrote > 0;
}

static void check_bytes(struct suite_rank *rank, const struct suite_stream *stream,
			const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		const uint8_t expected = byte_at(stream->in_seed, stream->in_done + i);

		if (data[i] != expected)
			suite_require(rank, false,
				      "byte %zu of %zu from rank %d is %u, expected %u",
				      stream->in_done + i, stream->in_total, stream->link->peer,
				      data[i], expected);
	}
}

static bool read_some(struct suite_rank *rank, struct suite_stream *stream)
{
	struct suite_chunk *in = &stream->in;
	struct iovec iov[PIECES];

	if (!in->buffer)
		*in = new_chunk(rank, stream, stream->in_done, stream->in_total);
	const size_t bytes = in->bytes - in->moved;
	const ssize_t got = rank->ops->read(stream->link, iov, split(rank, stream, in, iov));
	suite_require(rank, got >= 0, "read() from rank %d after %zu bytes: %s", stream->link->peer,
		      stream->in_done, tt_thread_error());
	suite_require(rank, (size_t)got <= bytes, "read() of %zu bytes moved %zd", bytes, got);
	check_bytes(rank, stream, in->buffer + in->moved, (size_t)got);
	chunk_moved(in, (size_t)got);
	stream->in_done += (size_t)got;
	return got > 0;
}

static size_t peek(struct suite_rank *rank, struct suite_stream *stream)
{
	const size_t limit = stream->limit;
	const void *data = NULL;
	const ssize_t shown = rank->ops->peek(stream->link, stream->want, limit, &data);

	suite_require(rank, shown >= 0, "peek() from rank %d after %zu bytes: %s",
		      stream->link->peer, stream->in_done, tt_thread_error());
	suite_require(rank, (size_t)shown <= limit, "peek() with a limit of %zu showed %zd", limit,
		      shown);
	suite_require(rank, (size_t)shown >= stream->shown,
		      "peek() showed %zd bytes after it had shown %zu", shown, stream->shown);
	if (shown > 0)
		check_bytes(rank, stream, data, (size_t)shown);
	return (size_t)shown;
}

/* Look until as much is there as wanted, poll once more, then release some. */
static bool peek_some(struct suite_rank *rank, struct suite_stream *stream)
{
	const size_t left = stream->in_total - stream->in_done;
	const size_t most = left < SUITE_WANT_MAX ? left : SUITE_WANT_MAX;
	const size_t before = stream->shown;

	if (stream->want == 0) {
		stream->want = stream->whole ? HEAD_BYTES : random_between(&rank->random, 1, most);
		stream->limit = stream->whole ? HEAD_BYTES
					      : random_between(&rank->random, stream->want, left);
	}
	stream->shown = peek(rank, stream);
	if (stream->shown < stream->want)
		return stream->shown > before;
	stream->shown = peek(rank, stream);
	const size_t bytes =
		stream->whole ? HEAD_BYTES : random_between(&rank->random, 1, stream->shown);

	rank->ops->release(stream->link, bytes);
	stream->in_done += bytes;
	stream->want = 0;
	stream->shown = 0;
	return true;
}

/* Is what comes next looked at, not read? */
static bool peeks(struct suite_rank *rank, const struct suite_stream *stream)
{
	if (stream->whole)
		return stream->in_done == 0;
	return !stream->in.buffer &&
	       (stream->peek_only || stream->want > 0 || random_one_in(&rank->random, 2));
}

bool suite_stream_pass(struct suite_rank *rank, struct suite_stream *stream)
{
	bool moved = false;

	if (stream->out_done < stream->out_total)
		moved = write_some(rank, stream);
	if (stream->in_done == stream->in_total)
		return moved;
	if (peeks(rank, stream))
		return peek_some(rank, stream) || moved;
	return read_some(rank, stream) || moved;
}

void suite_stream_fill(struct suite_rank *rank, struct suite_stream *stream)
{
	stream->out_total = FULL_LIMIT;
	for (int refused = 0; refused < FULL_TRIES; refused++) {
		rank->ops->progress(rank->endpoint, false);
		if (suite_stream_pass(rank, stream))
			refused = 0;
		suite_require(rank, stream->out_done < FULL_LIMIT / 2,
			      "the link took %zu bytes that nobody reads", stream->out_done);
		if (refused == 0)
			suite_at(rank, "filling a link: %zu bytes", stream->out_done);
	}
	stream->out_total =
		stream->out_done + (stream->out.buffer ? stream->out.bytes - stream->out.moved : 0);
}

struct pump {
	struct suite_stream *streams;
	int n;
};

static bool pump_pass(struct suite_rank *rank, void *context)
{
	const struct pump *pump = context;
	bool moved = false;

	for (int i = 0; i < pump->n; i++)
		moved |= suite_stream_pass(rank, &pump->streams[i]);
	return moved;
}

static bool pumped_dry(const struct pump *pump)
{
	for (int i = 0; i < pump->n; i++)
		if (pump->streams[i].out_done < pump->streams[i].out_total ||
		    pump->streams[i].in_done < pump->streams[i].in_total)
			return false;
	return true;
}

static void describe_pump(struct suite_rank *rank, const struct pump *pump, const char *what)
{
	const struct suite_stream *stream = pump->streams;

	for (int i = 1; i < pump->n; i++)
		if (stream->out_done == stream->out_total && stream->in_done == stream->in_total)
			stream = &pump->streams[i];
	suite_at(rank, "%s: with rank %d, wrote %zu of %zu bytes, read %zu of %zu", what,
		 stream->link->peer, stream->out_done, stream->out_total, stream->in_done,
		 stream->in_total);
}

void suite_pump(struct suite_rank *rank, struct suite_stream *streams, int n, const char *what)
{
	struct pump pump = { streams, n };
	int idle = 0;

	while (!pumped_dry(&pump)) {
		rank->ops->progress(rank->endpoint, false);
		suite_require(rank, rank->endpoint->fault.result == 0, "%s: %s", what,
			      rank->endpoint->fault.text);
		if (pump_pass(rank, &pump)) {
			idle = 0;
			continue;
		}
		if (++idle < IDLE_PASSES)
			continue;
		describe_pump(rank, &pump, what);
		suite_sleep(rank, pump_pass, &pump, random_one_in(&rank->random, 2), what);
	}
}

void suite_exchange(struct suite_rank *rank, int peer, enum tt_channel channel, size_t out,
		    size_t in, const char *what)
{
	struct suite_stream stream = suite_stream(rank, peer, channel, out, in);

	suite_pump(rank, &stream, 1, what);
}

void suite_sleep(struct suite_rank *rank, suite_pass_fn *pass, void *context, bool by_poll,
		 const char *what)
{
	struct tt_endpoint *endpoint = rank->endpoint;
	uint64_t slept = 0;

	rank->ops->doorbell->arm(endpoint);
	rank->ops->progress(endpoint, true);
	if (!pass(rank, context)) {
		const uint64_t began = tt_now();

		struct pollfd fd = { by_poll ? rank->ops->doorbell->fd(endpoint) : -1, POLLIN, 0 };

		if (fd.fd >= 0)
			poll(&fd, 1, SUITE_SLEEP_MS);
		else
			rank->ops->doorbell->sleep(endpoint, SUITE_SLEEP_MS);
		slept = tt_now() - began;
	}
	rank->ops->doorbell->disarm(endpoint);
	suite_require(rank, (int)(slept / 1000000) < SUITE_SLEEP_MS,
		      "%s: slept %d ms %s and nothing woke it", what, SUITE_SLEEP_MS,
		      by_poll ? "in poll() on fd()" : "in sleep()");
}

static bool has_fault(struct suite_rank *rank, void *context)
{
	return rank->endpoint->fault.result != 0;
}

void suite_await_fault(struct suite_rank *rank, const char *what)
{
	while (!has_fault(rank, NULL)) {
		suite_at(rank, "%s: waiting for the fault", what);
		suite_sleep(rank, has_fault, NULL, rank->rank % 2, what);
	}
}

void suite_require_fault(struct suite_rank *rank, tutti_result_t result, int of, const char *words)
{
	const struct tt_fault *fault = &rank->endpoint->fault;

	suite_require(rank,
		      fault->result == result && fault->rank == of &&
			      strstr(fault->text, words) != NULL,
		      "fault %d of rank %d \"%s\", expected %d of rank %d \"%s\"", fault->result,
		      fault->rank, fault->text, (int)result, of, words);
}
