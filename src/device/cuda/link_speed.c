/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how fast a rank reads the memory of others, which the tuner has to know: on the same GPU, by
 * NVLink or by PCIe, between which there is a factor of ten each. It is measured, as each process sees
 * its own GPUs alone and cannot ask the driver what joins them. Only the order of magnitude counts, so
 * that the same machine gives the same plans, and all ranks take the slowest. */
#include "bound.h"
#include "machine.h"

#define BYTES	       ((size_t)4 << 20)
#define COPIES	       4       /* of which the fastest counts: the first may map what it reads */
#define SAME_GPU       0.5e-12 /* seconds for a byte: 2 TB/s, … */
#define NVLINK	       5e-12   /* … 200 GB/s, … */
#define PCIE	       50e-12  /* … and 20 GB/s */
#define NVLINK_SLOWEST 16e-12  /* 67 µs for a copy and its start: what takes longer is PCIe */

/* The next rank on another GPU; none: this one. */
static int find_elsewhere(const struct tt_cuda *cuda)
{
	const int size = cuda->comm->size, own = cuda->comm->rank;

	for (int i = 1; i < size; i++)
		if (cuda->peer[(own + i) % size].elsewhere)
			return (own + i) % size;
	return own;
}

cuda_result tt_cuda_measure_link(const struct tt_cuda *cuda, double *byte_seconds)
{
	const int from = find_elsewhere(cuda), own = cuda->comm->rank;
	/* from the second half of a stage to the first half of this rank's: peers do so, too */
	const cuda_address src = tt_cuda_stage_of(cuda, from) + TT_CUDA_STAGE_BYTES / 2,
			   dst = tt_cuda_stage_of(cuda, own);
	uint64_t fastest = UINT64_MAX;

	*byte_seconds = SAME_GPU;
	if (from == own)
		return 0;
	for (int i = 0; i < COPIES; i++) {
		const uint64_t begun = tt_now();
		const cuda_result error = tt_cuda_copy_now(cuda, dst, src, BYTES);
		const uint64_t ns = tt_now() - begun;

		if (error)
			return error;
		fastest = ns < fastest ? ns : fastest;
	}
	const double seconds = (double)fastest * 1e-9 / (double)BYTES;
	*byte_seconds = seconds < NVLINK_SLOWEST ? NVLINK : PCIE;
	return 0;
}
