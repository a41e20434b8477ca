/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of a link that is up: where they are in the two rings, and the credit that keeps a writer from overrunning its
 * reader.
 *
 * The stream's byte k is in byte k % RDMA_RING_BYTES of the writer's own ring and of the reader's. The writer's may be written over as soon as
 * the reader's credit says that it has taken the byte: a packet that the device sends again was received before, and is dropped. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "endpoint.h"

#define CREDIT (1u << 31) /* of the immediate data: no bytes, but news of the ring; else their number */

static size_t at(uint64_t position)
{
	return (size_t)(position % RDMA_RING_BYTES);
}

static size_t lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- requests */

static bool can_send(const struct rdma_link *link)
{
	return ((link->sends - link->sends_done) & RDMA_SENDS_MASK) < RDMA_SENDS;
}

/* Write `bytes` from `from` to the same place of the peer's memory, `shift` bytes on. `signalled`: word of it is wanted. */
static bool post(struct rdma_link *link, const void *from, size_t bytes, ptrdiff_t shift, uint32_t immediate, bool signalled)
{
	struct ibv_sge piece = { (uintptr_t)from, (uint32_t)bytes, link->mr->lkey };
	struct ibv_send_wr *bad;

	link->sends = (link->sends + 1) & RDMA_SENDS_MASK;
	struct ibv_send_wr request = {
		.wr_id = RDMA_SENT | (uint64_t)link->sends << 32 | link->id,
		.sg_list = &piece,
		.num_sge = bytes > 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(immediate),
		.wr.rdma = { link->peer.memory + (uint64_t)((const uint8_t *)from - (const uint8_t *)link->memory + shift),
			     link->peer.key },
	};

	if (signalled || link->sends % RDMA_SIGNAL == 0)
		request.send_flags |= IBV_SEND_SIGNALED;
	if (bytes > 0 && bytes <= link->inline_bytes)
		request.send_flags |= IBV_SEND_INLINE;
	const int error = ibv_post_send(link->qp, &request, &bad);
	if (error)
		tt_rdma_link_fail(link, "cannot post a write to rank %d: %s", link->base.peer, strerror(error));
	return !error;
}

static void post_receives(struct rdma_link *link)
{
	struct ibv_recv_wr requests[RDMA_RECEIVES], *bad;
	const uint32_t n = link->to_post;

	for (uint32_t i = 0; i < n; i++)
		requests[i] = (struct ibv_recv_wr){ .wr_id = link->id, .next = i + 1 < n ? &requests[i + 1] : NULL };
	const int error = n ? ibv_post_recv(link->qp, requests, &bad) : 0;
	if (error)
		tt_rdma_link_fail(link, "cannot post receive requests for rank %d: %s", link->base.peer, strerror(error));
	link->to_post = 0;
}

tutti_result_t tt_rdma_ring_begin(struct rdma_link *link)
{
	link->to_post = RDMA_RECEIVES;
	post_receives(link);
	return link->state == RDMA_FAILED ? tt_fail(TUTTI_ERR_SYSTEM, RDMA, "%s", link->why) : TUTTI_OK;
}

/* ---- credit */

/* Tell the peer, if it is worth a message. A writer that has no room waits for one of these: it comes when a quarter is free. */
static void give_credit(struct rdma_link *link)
{
	struct rdma_credit *ours = &link->memory->ours;

	if (link->taken - link->told_credit.bytes < RDMA_RING_BYTES / 4 &&
	    link->receives - link->told_credit.messages < RDMA_MESSAGES / 4)
		return;
	if (link->state != RDMA_UP || !can_send(link))
		return;
	*ours = link->told_credit = (struct rdma_credit){ link->taken, link->receives };
	post(link, ours, sizeof(*ours),
	     (ptrdiff_t)offsetof(struct rdma_memory, theirs) - (ptrdiff_t)offsetof(struct rdma_memory, ours), CREDIT, false);
}

/* Bytes that may be written now. */
static size_t room(const struct rdma_link *link)
{
	/* written by the device before the completion that told of it */
	const uint64_t bytes = __atomic_load_n(&link->memory->theirs.bytes, __ATOMIC_RELAXED);
	const uint64_t messages = __atomic_load_n(&link->memory->theirs.messages, __ATOMIC_RELAXED);

	if (link->messages - messages >= RDMA_MESSAGES || !can_send(link))
		return 0;
	return RDMA_RING_BYTES - (size_t)(link->written - bytes);
}

void tt_rdma_ring_arrived(struct rdma_link *link, uint32_t immediate)
{
	const uint32_t what = ntohl(immediate);

	link->to_post++;
	if (what == CREDIT) {
		/* its own receive request needs no credit: the peer sends no more of these than there is room for */
	} else if (what == 0 || what > RDMA_PIECE_BYTES || link->arrived + what - link->taken > RDMA_RING_BYTES) {
		tt_rdma_link_fail(link, "rank %d says that it has written %u bytes into a ring of %zu with %llu unread: it is not "
				  "this version of tutti", link->base.peer, what, RDMA_RING_BYTES,
				  (unsigned long long)(link->arrived - link->taken));
		return;
	} else {
		link->arrived += what;
		link->receives++;
	}
	if (link->to_post >= RDMA_CREDITS / 2)
		post_receives(link);
	give_credit(link);
}

bool tt_rdma_ring_ask(struct rdma_link *link)
{
	struct ibv_send_wr *bad, request = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };

	if (!can_send(link))
		return false;
	link->sends = (link->sends + 1) & RDMA_SENDS_MASK;
	request.wr_id = RDMA_SENT | (uint64_t)link->sends << 32 | link->id;
	request.wr.rdma.remote_addr = link->peer.memory;
	request.wr.rdma.rkey = link->peer.key;
	const int error = ibv_post_send(link->qp, &request, &bad);
	if (error)
		tt_rdma_link_fail(link, "cannot post a write to rank %d: %s", link->base.peer, strerror(error));
	return !error;
}

bool tt_rdma_ring_is_drained(struct rdma_link *link)
{
	if (link->sends == link->sends_done)
		return true;
	if (!link->asked)
		link->asked = tt_rdma_ring_ask(link);
	return link->state == RDMA_FAILED;
}

/* ---- writing */

/* Copy the next `bytes` of iov, from `*skip` of its first part on, to `to`. */
static void gather(uint8_t *to, size_t bytes, const struct iovec **iov, size_t *skip)
{
	while (bytes > 0) {
		const size_t n = lesser(bytes, (*iov)->iov_len - *skip);

		memcpy(to, (const uint8_t *)(*iov)->iov_base + *skip, n);
		to += n;
		bytes -= n;
		*skip += n;
		if (*skip == (*iov)->iov_len) {
			++*iov;
			*skip = 0;
		}
	}
}

size_t tt_rdma_ring_write(struct rdma_link *link, const struct iovec *iov, int n)
{
	size_t left = 0, skip = 0, moved = 0;

	for (int i = 0; i < n; i++)
		left += iov[i].iov_len;
	while (left > 0) {
		const size_t begin = at(link->written);
		size_t bytes = lesser(lesser(left, room(link)), lesser(RDMA_RING_BYTES - begin, RDMA_PIECE_BYTES));

		if (bytes == 0)
			break;
		gather(link->memory->out + begin, bytes, &iov, &skip);
		if (!post(link, link->memory->out + begin, bytes,
			  (ptrdiff_t)offsetof(struct rdma_memory, in) - (ptrdiff_t)offsetof(struct rdma_memory, out),
			  (uint32_t)bytes, false))
			break;
		link->written += bytes;
		link->messages++;
		moved += bytes;
		left -= bytes;
	}
	return moved;
}

/* ---- reading */

void tt_rdma_ring_release(struct rdma_link *link, size_t bytes)
{
	link->taken += bytes;
	give_credit(link);
}

size_t tt_rdma_ring_read(struct rdma_link *link, const struct iovec *iov, int n)
{
	const uint64_t before = link->taken;
	size_t left = (size_t)(link->arrived - link->taken);
	uint64_t position = before;

	for (int i = 0; i < n && left > 0; i++) {
		for (size_t done = 0; done < iov[i].iov_len && left > 0;) {
			const size_t begin = at(position);
			const size_t bytes = lesser(lesser(left, iov[i].iov_len - done), RDMA_RING_BYTES - begin);

			memcpy((uint8_t *)iov[i].iov_base + done, link->memory->in + begin, bytes);
			done += bytes;
			position += bytes;
			left -= bytes;
		}
	}
	tt_rdma_ring_release(link, (size_t)(position - before));
	return (size_t)(position - before);
}

size_t tt_rdma_ring_peek(struct rdma_link *link, size_t want, const void **data)
{
	const size_t there = (size_t)(link->arrived - link->taken), begin = at(link->taken);
	const size_t whole = lesser(there, RDMA_RING_BYTES - begin);

	*data = link->memory->in + begin;
	if (whole >= want || whole == there)
		return whole;
	/* what is wanted goes round the end of the ring: into the slack behind it */
	const size_t bytes = lesser(there - whole, RDMA_SLACK_BYTES);
	memcpy(link->memory->in + RDMA_RING_BYTES, link->memory->in, bytes);
	return whole + bytes;
}
