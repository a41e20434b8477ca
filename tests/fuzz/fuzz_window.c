/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes to rank 1 of two on the link of one-sided calls: frames that need not be ones. The input:
 * a byte, whose last bit says that every header begins as a frame does; then the stream. Rank 1 has
 * a window, waits for answers, and sends no more than it is let. */
#include <string.h>

#include "agreement.h"
#include "fault.h"
#include "fuzz.h"
#include "windows.h"

enum { RANKS = 2, ME = 1, BYTES = 200, SIGNALS = 3, GOT = 70 };

static const uint8_t *at;
static size_t left;
static bool framed;
static uint8_t header[sizeof(struct tt_frame)];

/* A little now and then. */
static ssize_t write_some(struct tt_link *link, const struct iovec *iov, int n)
{
	FUZZ_PROMISE(n > 0 && iov[0].iov_len > 0);
	return (ssize_t)(left % 3 == 0 ? 0 : iov[0].iov_len < 50 ? iov[0].iov_len : 50);
}

static ssize_t read_some(struct tt_link *link, const struct iovec *iov, int n)
{
	const size_t most = iov[0].iov_len < 30 ? iov[0].iov_len : 30,
		     bytes = left < most ? left : most;

	memcpy(iov[0].iov_base, at, bytes);
	at += bytes;
	left -= bytes;
	return (ssize_t)bytes;
}

static ssize_t peek(struct tt_link *link, size_t want, size_t limit, const void **data)
{
	struct tt_frame frame;

	FUZZ_PROMISE(want == sizeof(header));
	if (left < sizeof(header))
		return 0;
	memcpy(&frame, at, sizeof(frame));
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
	FUZZ_PROMISE(bytes <= left);
	at += bytes;
	left -= bytes;
}

static void revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	FUZZ_PROMISE(fault->result == TUTTI_ERR_MISMATCH && fault->rank == 0);
}

static struct tutti_window *new_window(struct tutti_comm *comm)
{
	struct tutti_window *window = calloc(1, sizeof(*window) + RANKS * sizeof(window->part[0]));

	FUZZ_PROMISE(window);
	window->comm = comm;
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
	while (!comm->fault.result && left >= sizeof(header)) {
		const size_t before = left;

		tt_windows_serve(comm, true);
		if (left == before)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tt_transport_control control = { .revoke = revoke };
	static const struct tt_transport ops = { .name = "fuzz",
						 .write = write_some,
						 .read = read_some,
						 .peek = peek,
						 .release = release,
						 .control = &control };
	struct tt_endpoint endpoint = { .ops = &ops };
	struct tt_link link = { &ops, &endpoint, 0 };
	struct tt_connection connection = { .link = &link };
	struct tutti_comm *comm = calloc(1, sizeof(*comm));
	struct tt_windows *windows = calloc(1, sizeof(*windows) + RANKS * sizeof(windows->peer[0]));
	struct tt_window_peer *peer = calloc(1, sizeof(*peer));
	uint8_t *got = malloc(GOT);
	struct tt_op asking[3];
	struct tt_window_call calls[3];

	FUZZ_PROMISE(comm && windows && peer && got);
	framed = size > 0 && data[0] & 1;
	at = size > 0 ? data + 1 : data;
	left = size > 0 ? size - 1 : 0;
	comm->rank = ME;
	comm->size = RANKS;
	comm->endpoints[0] = &endpoint;
	comm->nendpoints = 1;
	FUZZ_PROMISE(tt_comm_fault_open(comm));
	comm->agreement->ns = UINT64_C(1) << 40;
	comm->windows = windows;
	windows->peer[0] = peer;
	windows->all = (struct tutti_window *[]){ NULL, new_window(comm) };
	windows->count = 2;
	peer->connection = &connection;
	ask(peer, asking, calls, got);
	serve_all(comm);
	FUZZ_PROMISE(peer->answer_count <= TT_WINDOW_ASKED && peer->flushed <= peer->sent);
	free_window(windows->all[1]);
	tt_outbox_free(&peer->outbox);
	free(peer);
	free(windows);
	free(got);
	tt_comm_fault_free(comm);
	free(comm);
	return 0;
}
