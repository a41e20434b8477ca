/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the bytes of a link that is up: where they are in the two rings, the order of what
 * arrives, and the credit that keeps a writer from overrunning its reader.
 *
 * The k-th byte that goes through the ring is in byte k % RDMA_RING_BYTES of the writer's own
 * ring and of the reader's. The writer's may be written over as soon as the reader's credit says
 * that it has taken the byte: a packet that the device sends again was received before, and is
 * dropped.
 *
 * A message of bytes has a number, of which the immediate data has the last bits. Messages that
 * take different paths may overtake each other: those that are early wait for the others. */
#include <stdlib.h>

#include "endpoint.h"

/* Immediate data: a kind; of a message of bytes its number, how many messages its writer has
 * taken note of, in units, and its bytes; of an offer its slot. Of numbers the last bits. */
enum { RING, DIRECT, CREDIT, OFFER };
#define KIND_BIT    30
#define NUMBER_BIT  24
#define NUMBER_MASK (RDMA_MESSAGES - 1)
#define NOTED_BIT   19
#define NOTED_MASK  ((1u << (NUMBER_BIT - NOTED_BIT)) - 1)
#define NOTED_UNIT  8
#define BYTES_MASK  ((1u << NOTED_BIT) - 1)
_Static_assert((RDMA_MESSAGES & NUMBER_MASK) == 0 && RDMA_MESSAGES <= 1 << (KIND_BIT - NUMBER_BIT),
	       "a number fits");
_Static_assert(RDMA_CHUNK_BYTES + RDMA_REST_BYTES <= BYTES_MASK && RDMA_DIRECT_BYTES <= BYTES_MASK,
	       "the bytes of a message fit");
_Static_assert(2 * RDMA_MESSAGES / NOTED_UNIT <= NOTED_MASK,
	       "as many more can be told from as many less");
#define SPREAD_BYTES 4096 /* shorter messages take the first path that both ends use */

static size_t at(uint64_t position)
{
	return (size_t)(position % RDMA_RING_BYTES);
}

static size_t lesser(size_t a, size_t b)
{
	return a < b ? a : b;
}

static int first_path(const struct rdma_link *link)
{
	return __builtin_ctz(link->usable);
}

/* ---- news: credit and offers */

/* What messages tell by the way, so that two who take turns need no other news: those of the
 * first path, where news go too, as they come in the order in which they were sent. */
static uint32_t noted_by_the_way(struct rdma_link *link, int path)
{
	const uint64_t units = link->receives / NOTED_UNIT;

	if (path == first_path(link) && link->told_credit.messages < units * NOTED_UNIT)
		link->told_credit.messages = units * NOTED_UNIT;
	return ((uint32_t)units & NOTED_MASK) << NOTED_BIT;
}

/* Credit that came before may have been newer: the device puts it in its place at once. False:
 * the peer cannot have taken note of so many. */
static bool noted_came(struct rdma_link *link, int path, uint32_t immediate)
{
	const uint64_t known = link->noted / NOTED_UNIT;
	const uint32_t more = ((immediate >> NOTED_BIT) - (uint32_t)known) & NOTED_MASK;

	if (path == first_path(link) && more > 0 && more <= RDMA_MESSAGES / NOTED_UNIT)
		link->noted = (known + more) * NOTED_UNIT;
	return link->noted <= link->messages;
}

/* `bytes` of the link's memory to what is `at_theirs` bytes into the peer's. */
static bool tell(struct rdma_link *link, const void *from, size_t bytes, size_t at_theirs,
		 uint32_t immediate)
{
	const int path = first_path(link);
	const struct rdma_post post = {
		.from = from,
		.bytes = (uint32_t)bytes,
		.lkey = link->path[path].mr->lkey,
		.to = link->peer.memory + at_theirs,
		.rkey = link->peer.path[path].key,
		.tells = true,
		.immediate = immediate,
	};

	return tt_rdma_post(link, path, &post);
}

static void report_credit(struct rdma_link *link)
{
	struct rdma_credit *ours = &link->memory->ours;

	if (link->state != RDMA_UP || link->broken)
		return;
	link->owes_credit = !tt_rdma_can_send(&link->path[first_path(link)]);
	if (link->owes_credit)
		return;
	*ours = link->told_credit = (struct rdma_credit){ link->ring_taken, link->receives };
	tell(link, ours, sizeof(*ours), offsetof(struct rdma_memory, theirs),
	     (uint32_t)CREDIT << KIND_BIT);
}

/* Tell the peer, if it is worth a message. A writer that has no room waits for one of these: it
 * comes when half is free. */
static void give_credit(struct rdma_link *link)
{
	if (link->ring_taken - link->told_credit.bytes >= RDMA_RING_BYTES / 2 ||
	    link->receives - link->told_credit.messages >= RDMA_MESSAGES / 4)
		report_credit(link);
}

void tt_rdma_ring_sent(struct rdma_link *link)
{
	if (link->owes_credit)
		report_credit(link);
}

bool tt_rdma_ring_offer(struct rdma_link *link, uint32_t slot)
{
	const struct rdma_offer *offer = &link->memory->offers[slot];

	return tt_rdma_can_send(&link->path[first_path(link)]) &&
	       tell(link, offer, sizeof(*offer),
		    offsetof(struct rdma_memory, offered) + slot * sizeof(*offer),
		    (uint32_t)OFFER << KIND_BIT | slot);
}

/* ---- what arrives */

/* Bytes that arrived through the ring, and are there still. */
static size_t in_ring(const struct rdma_link *link)
{
	return (size_t)(link->arrived - link->taken) - link->placed;
}

/* The ring's next bytes. */
static void take_out(struct rdma_link *link, uint8_t *to, size_t bytes)
{
	const size_t begin = at(link->ring_taken), whole = lesser(bytes, RDMA_RING_BYTES - begin);

	memcpy(to, link->memory->in + begin, whole);
	if (bytes > whole)
		memcpy(to + whole, link->memory->in, bytes - whole);
	link->ring_taken += bytes;
}

/* Of so many bytes that arrive now, those that are for the memory that is offered. */
static size_t for_offer(const struct rdma_link *link, size_t bytes)
{
	const uint64_t end = link->ours.offer.at + link->ours.offer.bytes;

	return link->ours.open && end > link->arrived ? lesser(bytes, (size_t)(end - link->arrived))
						      : 0;
}

/* The next message in order. What came through the ring, and is for memory that is offered, goes
 * there at once: so the two may take turns as they like. False: no writer of this version sends
 * it. */
static bool take_note(struct rdma_link *link, uint32_t immediate)
{
	const size_t bytes = immediate & BYTES_MASK, offered = for_offer(link, bytes);
	const struct rdma_offer *offer = &link->ours.offer;
	const bool direct = immediate >> KIND_BIT == DIRECT;

	if (direct ? bytes > offered
		   : bytes > RDMA_CHUNK_BYTES + RDMA_REST_BYTES ||
			     in_ring(link) + bytes > RDMA_RING_BYTES)
		return false;
	link->receives++;
	if (!direct && offered > 0)
		take_out(link, (uint8_t *)(uintptr_t)offer->address + (link->arrived - offer->at),
			 offered);
	link->placed += offered;
	link->arrived += bytes;
	return true;
}

/* False: see take_note(). */
static bool message_came(struct rdma_link *link, uint32_t immediate)
{
	uint32_t *early = &link->early[immediate >> NUMBER_BIT & NUMBER_MASK];

	if (*early || (immediate & BYTES_MASK) == 0)
		return false;
	*early = immediate;
	while (*(early = &link->early[link->receives & NUMBER_MASK])) {
		const uint32_t next = *early;

		*early = 0;
		if (!take_note(link, next))
			return false;
	}
	return true;
}

/* The device has put it in its place, or by now a newer one. False: the peer cannot have taken
 * so much. */
static bool credit_came(struct rdma_link *link)
{
	const uint64_t bytes = __atomic_load_n(&link->memory->theirs.bytes, __ATOMIC_RELAXED);
	const uint64_t messages = __atomic_load_n(&link->memory->theirs.messages, __ATOMIC_RELAXED);

	if (bytes > link->ring_taken_there)
		link->ring_taken_there = bytes;
	if (messages > link->noted)
		link->noted = messages;
	return link->ring_taken_there <= link->ring_written && link->noted <= link->messages;
}

static bool offer_came(struct rdma_link *link, uint32_t slot)
{
	if (slot < RDMA_OFFERS)
		link->offered = link->memory->offered[slot];
	return slot < RDMA_OFFERS;
}

void tt_rdma_ring_arrived(struct rdma_link *link, int path, uint32_t immediate)
{
	bool good = true;

	link->path[path].to_post++;
	if (immediate >> KIND_BIT == OFFER)
		good = offer_came(link, immediate & BYTES_MASK);
	else if (immediate >> KIND_BIT == CREDIT)
		good = credit_came(link);
	else
		good = noted_came(link, path, immediate) && message_came(link, immediate);
	if (!good) {
		tt_rdma_link_fail(
			link,
			"rank %d says that it has written %u bytes (%#x) that have no place, with %llu unread: it is not "
			"this version of tutti",
			link->base.peer, immediate & BYTES_MASK, immediate,
			(unsigned long long)(link->arrived - link->taken));
		return;
	}
	/* receive requests that news used need no credit: the peer sends no more of these than
	 * there is room for */
	if (link->path[path].to_post >= RDMA_NEWS / 2)
		tt_rdma_post_receives(link, path);
	give_credit(link);
}

/* ---- writing */

int tt_rdma_ring_path(const struct rdma_link *link)
{
	int best = -1;
	uint64_t least = RDMA_SENDS;

	if (link->messages - link->noted >= RDMA_MESSAGES || link->broken)
		return -1;
	for (int i = 0; i < link->paths; i++) {
		const uint64_t busy = link->path[i].sends - link->path[i].sends_done;

		if (link->usable >> i & 1 && busy < least) {
			best = i;
			least = busy;
		}
	}
	return best;
}

/* Its immediate data. */
static uint32_t name_of(struct rdma_link *link, int path, const struct rdma_message *message,
			uint64_t number)
{
	return (uint32_t)(message->direct ? DIRECT : RING) << KIND_BIT |
	       ((uint32_t)number & NUMBER_MASK) << NUMBER_BIT | noted_by_the_way(link, path) |
	       message->bytes;
}

uint32_t tt_rdma_ring_note(struct rdma_link *link, int path, const struct rdma_message *message)
{
	const uint64_t number = link->messages++;

	link->sent[number & NUMBER_MASK] = *message;
	return name_of(link, path, message, number);
}

/* Of so many, how many go in one message. */
static size_t chunk_of(size_t bytes)
{
	return bytes > RDMA_CHUNK_BYTES + RDMA_REST_BYTES ? RDMA_CHUNK_BYTES : bytes;
}

/* Bytes that may be written through the ring now. */
static size_t capacity(const struct rdma_link *link)
{
	return RDMA_RING_BYTES - (size_t)(link->ring_written - link->ring_taken_there);
}

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

/* What is in our ring from `message->from` on, to the same place of the peer's. */
static bool post_chunk(struct rdma_link *link, int path, const struct rdma_message *message,
		       uint32_t immediate)
{
	const struct rdma_post post = {
		.from = link->memory->out + at(message->from),
		.bytes = message->bytes,
		.lkey = link->path[path].mr->lkey,
		.to = link->peer.memory + offsetof(struct rdma_memory, in) + at(message->from),
		.rkey = link->peer.path[path].key,
		.tells = true,
		.immediate = immediate,
	};

	return tt_rdma_post(link, path, &post);
}

size_t tt_rdma_ring_write(struct rdma_link *link, const struct iovec *iov, int n)
{
	size_t left = 0, skip = 0, moved = 0;
	int path;

	for (int i = 0; i < n; i++)
		left += iov[i].iov_len;
	while (left > 0 && (path = tt_rdma_ring_path(link)) >= 0) {
		const size_t begin = at(link->ring_written);
		const size_t bytes =
			chunk_of(lesser(lesser(left, capacity(link)), RDMA_RING_BYTES - begin));
		const struct rdma_message message = { .bytes = (uint32_t)bytes,
						      .from = link->ring_written };

		if (bytes == 0)
			break;
		if (bytes < SPREAD_BYTES && tt_rdma_can_send(&link->path[first_path(link)]))
			path = first_path(link);
		gather(link->memory->out + begin, bytes, &iov, &skip);
		link->written += bytes;
		link->ring_written += bytes;
		moved += bytes;
		left -= bytes;
		if (!post_chunk(link, path, &message, tt_rdma_ring_note(link, path, &message)))
			break; /* it is sent again when the link is mended */
	}
	return moved;
}

/* ---- reading */

/* The writer of what was offered may wait for the report that all of it is there. */
static void took(struct rdma_link *link)
{
	if (tt_rdma_direct_taken(link))
		report_credit(link);
	else
		give_credit(link);
}

void tt_rdma_ring_release(struct rdma_link *link, size_t bytes)
{
	link->taken += bytes;
	link->ring_taken += bytes;
	took(link);
}

size_t tt_rdma_ring_read(struct rdma_link *link, const struct iovec *iov, int n)
{
	const uint64_t before = link->taken;

	for (int i = 0; i < n && link->arrived != link->taken; i++) {
		const size_t bytes = lesser(iov[i].iov_len, (size_t)(link->arrived - link->taken)),
			     placed = lesser(bytes, link->placed);

		take_out(link, (uint8_t *)iov[i].iov_base + placed, bytes - placed);
		link->placed -= placed;
		link->taken += bytes;
	}
	took(link);
	return (size_t)(link->taken - before);
}

size_t tt_rdma_ring_peek(struct rdma_link *link, size_t want, const void **data)
{
	const size_t there = in_ring(link), begin = at(link->ring_taken);
	const size_t whole = lesser(there, RDMA_RING_BYTES - begin);

	*data = link->memory->in + begin;
	if (whole >= want || whole == there)
		return whole;
	/* what is wanted goes round the end of the ring: into the slack behind it */
	const size_t bytes = lesser(there - whole, RDMA_SLACK_BYTES);
	memcpy(link->memory->in + RDMA_RING_BYTES, link->memory->in, bytes);
	return whole + bytes;
}

/* ---- again, and to the end */

bool tt_rdma_ring_is_possible(const struct rdma_link *link)
{
	const uint64_t missing = link->messages - link->peer.messages,
		       unread = link->ring_written - link->peer.bytes;

	return link->peer.messages <= link->messages && missing <= RDMA_MESSAGES &&
	       link->peer.bytes <= link->ring_written && unread <= RDMA_RING_BYTES;
}

void tt_rdma_ring_renew(struct rdma_link *link)
{
	memset(link->early, 0, sizeof(link->early)); /* they are sent again, too */
	link->told_credit = (struct rdma_credit){ link->mine.bytes, link->mine.messages };
	link->owes_credit = false;
	link->memory->theirs = (struct rdma_credit){ link->peer.bytes, link->peer.messages };
	link->noted = link->peer.messages;
	link->ring_taken_there = link->peer.bytes;
	link->offered.bytes = 0;
}

void tt_rdma_ring_resume(struct rdma_link *link)
{
	const uint64_t end = link->messages;

	for (uint64_t number = link->peer.messages; number != end && !link->broken; number++) {
		const struct rdma_message *message = &link->sent[number & NUMBER_MASK];
		const uint32_t immediate = name_of(link, first_path(link), message, number);

		if (message->direct)
			tt_rdma_direct_post(link, first_path(link), message, immediate);
		else
			post_chunk(link, first_path(link), message, immediate);
	}
	if (link->ours.open && !link->broken)
		tt_rdma_ring_offer(link, (link->offers - 1) % RDMA_OFFERS);
	give_credit(link);
}

/* An empty write to the path's other end, which tells nobody but this one. */
static void ask(struct rdma_link *link, int number)
{
	struct rdma_path *path = &link->path[number];
	const struct rdma_post post = { .to = link->peer.memory,
					.rkey = link->peer.path[number].key,
					.signalled = true };

	if (tt_rdma_can_send(path) && tt_rdma_post(link, number, &post))
		path->asked = path->sends;
}

bool tt_rdma_ring_is_drained(struct rdma_link *link)
{
	bool drained = true;

	for (int i = 0; i < link->paths; i++) {
		const struct rdma_path *path = &link->path[i];

		if (!(link->usable >> i & 1) || path->sends == path->sends_done)
			continue;
		drained = false;
		if (path->asked <= path->sends_done) /* others have followed since */
			ask(link, i);
	}
	return drained;
}
