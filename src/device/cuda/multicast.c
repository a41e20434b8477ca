/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the multicast objects of windows: who makes them, what is bound to them, where they are mapped. */
#include "multicast.h"

#include <string.h>

#include "log.h"
#include "segments.h"

/* ---- may it be */

bool tt_cuda_all_multicast(const struct tutti_comm *comm, const struct tt_cuda_offer *all,
			   uint32_t so_far)
{
	for (int rank = 0; rank < comm->size; rank++)
		if (all[rank].multicast < so_far)
			return false;
	return true;
}

bool tt_cuda_may_multicast(const struct tt_cuda *cuda, const struct tt_cuda_offer *all)
{
	const struct tutti_comm *comm = cuda->comm;

	if (comm->size < 2 || !tt_cuda_all_multicast(comm, all, TT_CUDA_MULTICAST_ABLE))
		return false;
	for (int rank = 0; rank < comm->size; rank++)
		if (all[rank].segments == 0 || all[rank].span != all[0].span ||
		    all[rank].offset != all[0].offset || tt_cuda_ranks_on_gpu(comm, all, rank) > 1)
			return false;
	return true;
}

/* ---- making it */

static struct CUmulticastObjectProp_st wanted_for(const struct tt_cuda *cuda, uint64_t span)
{
	return (struct CUmulticastObjectProp_st){ .numDevices = (unsigned)cuda->comm->size,
						  .size = span,
						  .handleTypes = CUDA_HANDLE_DESCRIPTOR };
}

/* Rank 0. */
static tutti_result_t make(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
			   struct tt_cuda_multicast *multicast)
{
	const struct CUmulticastObjectProp_st wanted = wanted_for(cuda, multicast->span);
	struct tt_cuda_descriptors message = { 0 };
	cuda_result error = tt_cu.multicast_create(&multicast->handle, &wanted);

	if (!error)
		error = tt_cuda_export(multicast->handle, multicast->span, &message);
	if (error)
		return tt_cuda_check(error, "make a multicast object");
	const tutti_result_t result = tt_cuda_descriptors_send(sockets, &message);
	tt_unix_descriptors_close(&message.fds);
	return result;
}

/* The other ranks. */
static tutti_result_t take(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
			   struct tt_cuda_multicast *multicast)
{
	struct tt_cuda_descriptors message;
	tutti_result_t result = tt_cuda_descriptors_receive(sockets, 0, &message);

	if (!result)
		result = tt_cuda_check(tt_cu.segment_import(&multicast->handle,
							    (void *)(intptr_t)message.fds.fd[0],
							    CUDA_HANDLE_DESCRIPTOR),
				       "open a multicast object");
	tt_unix_descriptors_close(&message.fds);
	return result ? result : tt_cuda_descriptors_taken(sockets, 0);
}

tutti_result_t tt_cuda_multicast_begin(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
				       const struct tt_cuda_offer *all,
				       struct tt_cuda_multicast *multicast)
{
	const struct tt_cuda_offer *mine = &all[cuda->comm->rank];

	multicast->span = mine->span;
	multicast->offset = mine->offset;
	tutti_result_t result = cuda->comm->rank == 0 ? make(cuda, sockets, multicast)
						      : take(cuda, sockets, multicast);
	if (!result)
		result = tt_cuda_check(tt_cu.multicast_add_device(multicast->handle, cuda->device),
				       "add the GPU to a multicast object");
	if (result)
		tt_cuda_multicast_end(cuda, multicast);
	return result;
}

/* ---- what is bound */

static tutti_result_t bind_segments(const struct tt_cuda *cuda, cuda_address first,
				    struct tt_cuda_multicast *multicast)
{

	while (multicast->bound < multicast->span) {
		cuda_address base;
		size_t bytes;
		cuda_result error = tt_cu.mem_get_range(&base, &bytes, first + multicast->bound);

		if (!error)
			error = tt_cu.multicast_bind(multicast->handle, multicast->bound, base,
						     bytes, 0);
		if (error)
			return tt_cuda_check(error, "bind memory to a multicast object");
		multicast->bound += bytes;
	}
	return TUTTI_OK;
}

tutti_result_t tt_cuda_multicast_bind(const struct tt_cuda *cuda, const struct tt_cuda_offer *mine,
				      struct tt_cuda_multicast *multicast)
{
	const struct CUmulticastObjectProp_st wanted = wanted_for(cuda, multicast->span);
	const tutti_result_t result = bind_segments(cuda, mine->memory - mine->offset, multicast);
	size_t unit;

	if (result)
		return result;
	cuda_result error = tt_cu.multicast_granularity(&unit, &wanted, CUDA_GRANULARITY_MINIMUM);
	if (!error)
		error = tt_cuda_map(cuda->device, multicast->handle, multicast->span, unit,
				    &multicast->base);
	return tt_cuda_check(error, "map a multicast object");
}

void tt_cuda_multicast_end(const struct tt_cuda *cuda, struct tt_cuda_multicast *multicast)
{
	if (multicast->base) {
		tt_cu.range_unmap(multicast->base, multicast->span);
		tt_cu.range_free(multicast->base, multicast->span);
	}
	if (multicast->bound)
		tt_cu.multicast_unbind(multicast->handle, cuda->device, 0, multicast->bound);
	if (multicast->handle)
		tt_cu.segment_release(multicast->handle);
	*multicast = (struct tt_cuda_multicast){ 0 };
}
