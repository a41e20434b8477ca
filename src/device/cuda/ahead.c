/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how far calls may be ahead of their streams. CUDA takes about a thousand works of a stream,
 * and then keeps the thread that brings more; as users of CUDA report, it keeps other threads of the
 * process as well, among them the watchdog, which alone could end what the stream waits for. So
 * whoever puts operations waits here before that happens, and not in CUDA. */
#include <time.h>

#include "bound.h"
#include "machine.h"

#define WORKS_AHEAD 512
#define WORKS_MARK  64	       /* from one mark to the next: the stream writes how far it is */
#define PAUSE_NS    50000      /* between two looks at the mark */
#define RELEASE_NS  2000000000 /* for streams to go on after a fault */
#define LOOKS_ALIVE 100	       /* between two questions whether the context works still */

static uint64_t behind(const struct tt_cuda *cuda)
{
	/* the stream's own write; nothing else is read by it */
	return cuda->works - __atomic_load_n(&cuda->report->passed, __ATOMIC_RELAXED);
}

static bool has_fault(const struct tt_cuda *cuda)
{
	struct tutti_comm *comm = cuda->owner;

	tt_comm_lock(comm);
	const bool found = comm->fault.result != TUTTI_OK;
	pthread_mutex_unlock(&comm->lock);
	return found;
}

/* A fault is told by the watchdog, which has the streams go on then; where that does not get through
 * to the GPU (CUDA_DEVICE_MAX_CONNECTIONS=1), or the context has failed, the caller goes on without. */
static cuda_result await_room(const struct tt_cuda *cuda)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	cuda_result error = 0;
	uint64_t fault = 0; /* seen then */

	for (unsigned looks = 1; behind(cuda) > WORKS_AHEAD && !error; looks++) {
		nanosleep(&pause, NULL);
		if (looks % LOOKS_ALIVE != 0)
			continue;
		error = tt_cu.stream_query(cuda->setup);
		if (error == CUDA_NOT_READY)
			error = 0;
		if (!fault && has_fault(cuda))
			fault = tt_now();
		if (fault && tt_now() - fault > RELEASE_NS)
			error = CUDA_NOT_READY;
	}
	return error;
}

cuda_result tt_cuda_make_room(struct tt_cuda_op *op, unsigned works)
{
	struct tt_cuda *cuda = op->cuda;

	if (op->captured) /* nothing is put anywhere yet */
		return 0;
	const uint64_t before = cuda->works;
	cuda->works += works < WORKS_AHEAD ? works : WORKS_AHEAD; /* more would never have room */
	if (before / WORKS_MARK == cuda->works / WORKS_MARK)
		return 0;
	/* before the works themselves, which may wait for peers */
	const cuda_result error = tt_cuda_report(op, &cuda->report->passed, before);
	return error ? error : await_room(cuda);
}
