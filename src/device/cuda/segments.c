/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how ranks of a host map each other's segments. They hand them on one rank after the other, in
 * order of rank, and some segments at a time: the next come when all have mapped these, as the
 * kernel bounds how many descriptors are on their way. Whoever fails closes its sockets, by which
 * the others learn of it. */
#include "segments.h"

#include <fcntl.h>

#include "fork.h"
#include "log.h"

#define SEGMENTS_MOST (1u << 20)

cuda_result tt_cuda_map(cuda_device device, cuda_allocation handle, size_t bytes, size_t unit,
			cuda_address *out)
{
	const struct CUmemAccessDesc_st access = { { CUDA_LOCATION_DEVICE, device },
						   CUDA_ACCESS_READ_WRITE };
	cuda_address base;
	cuda_result error = tt_cu.range_reserve(&base, bytes, unit, 0, 0);

	if (error)
		return error;
	error = tt_cu.range_map(base, bytes, 0, handle, 0);
	if (!error) {
		error = tt_cu.range_set_access(base, bytes, &access, 1);
		if (error)
			tt_cu.range_unmap(base, bytes);
	}
	if (error)
		tt_cu.range_free(base, bytes);
	else
		*out = base;
	return error;
}

/* ---- this rank's own */

/* The segment at `at`: whose handle is to be released. */
static cuda_result find_segment(cuda_address at, cuda_allocation *handle, cuda_address *base,
				size_t *bytes)
{
	cuda_result error = tt_cu.segment_retain(handle, cuda_pointer(at));

	if (error)
		return error;
	error = tt_cu.mem_get_range(base, bytes, at);
	if (error)
		tt_cu.segment_release(*handle);
	return error;
}

static bool can_be_shared(cuda_allocation handle)
{
	struct CUmemAllocationProp_st properties = { 0 };

	return tt_cu.segment_properties(&properties, handle) == 0 &&
	       properties.requestedHandleTypes & CUDA_HANDLE_DESCRIPTOR;
}

tutti_result_t tt_cuda_offer_segments(const struct tt_cuda *cuda, cuda_address memory, size_t bytes,
				      struct tt_cuda_offer *offer)
{
	cuda_address at = memory, base, first = 0;
	uint32_t segments = 0;
	bool shared = true;
	size_t length;

	while (at < memory + bytes && segments < SEGMENTS_MOST) {
		cuda_allocation handle;

		if (find_segment(at, &handle, &base, &length))
			break;
		shared &= can_be_shared(handle);
		tt_cu.segment_release(handle);
		first = segments++ == 0 ? base : first;
		at = base + length;
	}
	if (segments == 0)
		return TUTTI_ERR_UNSUPPORTED;
	if (at < memory + bytes)
		return tt_fail(TUTTI_ERR_INVALID, CUDA,
			       "%zu bytes at %#llx of GPU %d, of which %zu are mapped", bytes,
			       memory, cuda->number, (size_t)(at - memory));
	offer->segments = shared ? segments : 0;
	offer->offset = memory - first;
	offer->span = at - first;
	return TUTTI_OK;
}

bool tt_cuda_needs_mapping(const struct tt_cuda_offer *mine, const struct tt_cuda_offer *offer)
{
	return offer->segments &&
	       (offer->process != mine->process || offer->number != mine->number);
}

/* ---- handing on */

cuda_result tt_cuda_export(cuda_allocation handle, uint64_t bytes,
			   struct tt_cuda_descriptors *message)
{
	int fd = -1;

	tt_fd_hold();
	const cuda_result error = tt_cu.segment_export(&fd, handle, CUDA_HANDLE_DESCRIPTOR, 0);
	if (!error && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		fd = tt_fd_add(fd);
	tt_fd_let_go();
	if (!error) {
		message->bytes[message->fds.n] = bytes;
		message->fds.fd[message->fds.n++] = fd;
	}
	return error;
}

/* The segment at `*at`, behind those of the message; `*at` moves to its end. */
static tutti_result_t export_next(const struct tt_cuda *cuda, cuda_address *at,
				  struct tt_cuda_descriptors *message)
{
	cuda_allocation handle;
	cuda_address base;
	size_t bytes;
	cuda_result error = find_segment(*at, &handle, &base, &bytes);

	if (error)
		return tt_cuda_check(error, "find a segment of memory");
	error = tt_cuda_export(handle, bytes, message);
	tt_cu.segment_release(handle);
	if (error)
		return tt_cuda_check(error, "make a descriptor of a segment of memory");
	*at = base + bytes;
	return TUTTI_OK;
}

/* This rank's turn. */
static tutti_result_t hand_on(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
			      const struct tt_cuda_offer *mine, const struct tt_cuda_offer *all)
{
	const cuda_address end = mine->memory - mine->offset + mine->span;
	cuda_address at = mine->memory;
	tutti_result_t result = TUTTI_OK;
	bool wanted = false;

	for (int rank = 0; rank < cuda->comm->size && !result; rank++) {
		if (!tt_cuda_needs_mapping(&all[rank], mine))
			continue;
		wanted = true;
		result = tt_cuda_sockets_accept(sockets, rank);
	}
	while (wanted && at < end && !result) {
		struct tt_cuda_descriptors message = { 0 };

		while (at < end && message.fds.n < TT_UNIX_DESCRIPTORS && !result)
			result = export_next(cuda, &at, &message);
		if (!result)
			result = tt_cuda_descriptors_send(sockets, &message);
		tt_unix_descriptors_close(&message.fds);
	}
	return result;
}

/* ---- taking */

static tutti_result_t reserve(const struct tt_cuda *cuda, const struct tt_cuda_offer *offer,
			      int rank, struct tt_cuda_mapping *mapping)
{
	if (offer->segments > SEGMENTS_MOST || offer->offset > offer->span ||
	    offer->bytes > offer->span - offer->offset)
		return tt_fail(
			TUTTI_ERR_INVALID, CUDA,
			"rank %d offers %llu bytes at %llu of %llu in %u segments, which cannot be",
			rank, (unsigned long long)offer->bytes, (unsigned long long)offer->offset,
			(unsigned long long)offer->span, offer->segments);
	mapping->span = offer->span;
	const cuda_result error = tt_cu.range_reserve(&mapping->base, mapping->span, 0, 0, 0);
	if (error)
		mapping->base = 0;
	return tt_cuda_check(error, "reserve addresses for another rank's memory");
}

static tutti_result_t map_one(const struct tt_cuda *cuda, struct tt_cuda_mapping *mapping, int fd,
			      uint64_t bytes)
{
	cuda_allocation handle;
	cuda_result error =
		tt_cu.segment_import(&handle, (void *)(intptr_t)fd, CUDA_HANDLE_DESCRIPTOR);

	if (!error) {
		error = tt_cu.range_map(mapping->base + mapping->mapped, bytes, 0, handle, 0);
		tt_cu.segment_release(handle); /* the mapping keeps it */
	}
	if (error)
		return tt_cuda_check(error, "map a segment of another rank's memory");
	mapping->n++;
	mapping->mapped += bytes;
	return TUTTI_OK;
}

static tutti_result_t map_some(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
			       const struct tt_cuda_offer *offer, int rank,
			       struct tt_cuda_mapping *mapping)
{
	struct tt_cuda_descriptors message;
	tutti_result_t result = tt_cuda_descriptors_receive(sockets, rank, &message);

	for (size_t i = 0; i < message.fds.n && !result; i++)
		result =
			mapping->n < offer->segments &&
					message.bytes[i] <= mapping->span - mapping->mapped
				? map_one(cuda, mapping, message.fds.fd[i], message.bytes[i])
				: tt_fail(TUTTI_ERR_INVALID, CUDA,
					  "rank %d hands on more memory than it has offered", rank);
	tt_unix_descriptors_close(&message.fds);
	return result ? result : tt_cuda_descriptors_taken(sockets, rank);
}

/* The turn of a rank whose segments this one needs. */
static tutti_result_t map_all(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
			      const struct tt_cuda_offer *offer, int rank,
			      struct tt_cuda_peer *peer)
{
	const struct CUmemAccessDesc_st access = { { CUDA_LOCATION_DEVICE, cuda->device },
						   CUDA_ACCESS_READ_WRITE };
	struct tt_cuda_mapping *mapping = &peer->mapping;
	tutti_result_t result = reserve(cuda, offer, rank, mapping);

	if (result)
		return result;
	peer->memory = mapping->base + offer->offset;
	while (!result && mapping->mapped < mapping->span)
		result = map_some(cuda, sockets, offer, rank, mapping);
	if (result)
		return result;
	const cuda_result error = tt_cu.range_set_access(mapping->base, mapping->span, &access, 1);
	return tt_cuda_check(error, "get access to another rank's memory");
}

void tt_cuda_unmap(const struct tt_cuda *cuda, const struct tt_cuda_mapping *mapping)
{
	if (!mapping->base)
		return;
	if (mapping->n > 0) /* one call takes mappings that lie one behind the other */
		tt_cu.range_unmap(mapping->base, mapping->mapped);
	tt_cu.range_free(mapping->base, mapping->span);
}

/* ---- all of it */

tutti_result_t tt_cuda_ask_for_segments(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
					const struct tt_cuda_offer *all)
{
	const struct tt_cuda_offer *mine = &all[cuda->comm->rank];
	tutti_result_t result = TUTTI_OK;

	sockets->process = mine->process;
	for (int rank = 0; rank < cuda->comm->size && !result; rank++)
		if (tt_cuda_needs_mapping(mine, &all[rank]))
			result = tt_cuda_sockets_connect(sockets, rank, all[rank].socket,
							 all[rank].process);
	return result;
}

tutti_result_t tt_cuda_share_segments(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
				      const struct tt_cuda_offer *all, struct tt_cuda_peer *peers)
{
	const int own = cuda->comm->rank;
	tutti_result_t result = TUTTI_OK;

	for (int rank = 0; rank < cuda->comm->size && !result; rank++) {
		if (rank == own && all[own].segments)
			result = hand_on(cuda, sockets, &all[own], all);
		else if (sockets->from[rank] >= 0)
			result = map_all(cuda, sockets, &all[rank], rank, &peers[rank]);
	}
	return result;
}
