/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the program has mapped by CUDA's virtual memory API, as PyTorch's expandable segments
 * are: segment by segment, each an allocation of its own, of which other ranks get descriptors. */
#ifndef TT_CUDA_SEGMENTS_H
#define TT_CUDA_SEGMENTS_H

#include "descriptors.h"
#include "peer_access.h"

/* Offer memory[bytes] that is mapped so; without a segment if the program has not made them to be
 * shared. TUTTI_ERR_UNSUPPORTED, without an error message: it is not mapped so. */
tutti_result_t tt_cuda_offer_segments(const struct tt_cuda *cuda, cuda_address memory, size_t bytes,
				      struct tt_cuda_offer *offer);
/* Does the rank of `mine` need a mapping to reach what is offered? */
bool tt_cuda_needs_mapping(const struct tt_cuda_offer *mine, const struct tt_cuda_offer *offer);
/* Ask the ranks for their segments of which this one needs mappings. All have to have asked before any
 * hands on its own. */
tutti_result_t tt_cuda_ask_for_segments(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
					const struct tt_cuda_offer *all);
/* All ranks call, each with everybody's offers. Peers whose memory needs a mapping get one. Ends by the
 * communicator's deadline. Who fails closes its sockets, before it tells by other ways: others may
 * wait for it. */
tutti_result_t tt_cuda_share_segments(const struct tt_cuda *cuda, struct tt_cuda_sockets *sockets,
				      const struct tt_cuda_offer *all, struct tt_cuda_peer *peers);
/* Map it for the device to read and write, at a multiple of `unit`, 0: at any. */
cuda_result tt_cuda_map(cuda_device device, cuda_allocation handle, size_t bytes, size_t unit,
			cuda_address *out);
/* A descriptor for the message, of a segment or another object. No child of fork() has it. */
cuda_result tt_cuda_export(cuda_allocation handle, uint64_t bytes,
			   struct tt_cuda_descriptors *message);
/* Nobody uses it any more. None is fine. */
void tt_cuda_unmap(const struct tt_cuda *cuda, const struct tt_cuda_mapping *mapping);

#endif
