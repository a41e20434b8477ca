/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks what two processes have of one GPU's memory, and how long words, kernels and copies take. */
#include "probe.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define SHORT_BYTES 4096
#define SECOND_WORD 512 /* bytes behind the first */
#define TURNS	    100

/* Between the process that answers and its partner, which has memory and gives handles of it. */
struct rendezvous {
	struct CUipcMemHandle_st handles[2];
	cuda_address at[2];
	atomic_int ready, opened;
};

static cuda_address take_filled(struct gpu *gpu, unsigned char byte)
{
	cuda_address memory;

	must("cuMemAlloc", cu.mem_alloc(&memory, SHORT_BYTES));
	must("cuMemsetD8Async", cu.mem_set(memory, byte, SHORT_BYTES, gpu->other));
	must("cuStreamSynchronize", cu.stream_synchronize(gpu->other));
	return memory;
}

static void share(struct rendezvous *rendezvous, int i, cuda_address memory)
{
	rendezvous->at[i] = memory;
	must("cuIpcGetMemHandle", cu.ipc_get(&rendezvous->handles[i], memory));
}

/* It has two allocations, whose bytes are 11 and 22 everywhere, and is killed. */
static void have_two_short_ones(struct rendezvous *rendezvous)
{
	struct gpu gpu;

	gpu_begin(&gpu);
	share(rendezvous, 0, take_filled(&gpu, 0x11));
	share(rendezvous, 1, take_filled(&gpu, 0x22));
	atomic_store(&rendezvous->ready, 1);
	for (;;)
		pause();
}

/* A stream does `first` to the first of two words and `second` to the second, again and again. */
static void put_turns(struct CUstream_st *stream, cuda_address words, unsigned first,
		      unsigned second)
{
	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		must("cuStreamBatchMemOp", gpu_word_op(stream, first, words, turn));
		must("cuStreamBatchMemOp", gpu_word_op(stream, second, words + SECOND_WORD, turn));
	}
}

/* It has two words, waits for the first, and writes the second. */
static void answer_words(struct rendezvous *rendezvous)
{
	struct gpu gpu;

	gpu_begin(&gpu);
	const cuda_address words = take_filled(&gpu, 0);
	share(rendezvous, 0, words);
	put_turns(gpu.other, words, CUDA_MEM_OP_WAIT_64, CUDA_MEM_OP_WRITE_64);
	atomic_store(&rendezvous->ready, 1);
	for (;;)
		pause();
}

/* Before CUDA is used here: what it has does not outlive fork(). */
static pid_t begin_partner(void (*partner)(struct rendezvous *rendezvous), struct rendezvous **out)
{
	struct rendezvous *rendezvous = shared_memory(sizeof(*rendezvous));
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		partner(rendezvous);
		end();
	}
	*out = rendezvous;
	return pid;
}

static void await_partner(pid_t pid, struct rendezvous *rendezvous)
{
	int status;

	while (!atomic_load(&rendezvous->ready)) {
		if (waitpid(pid, &status, WNOHANG) == pid) /* it has said why */
			end();
		sched_yield();
	}
}

static void end_partner(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static cuda_result read_byte(struct gpu *gpu, cuda_address memory, unsigned *byte)
{
	cuda_result error =
		cu.mem_copy((cuda_address)(uintptr_t)gpu->pinned, memory, 1, gpu->other);

	if (!error)
		error = cu.stream_synchronize(gpu->other);
	*byte = (unsigned char)gpu->pinned[0];
	return error;
}

static void ask_two_in_a_block(const struct question *question)
{
	struct rendezvous *rendezvous;
	const pid_t partner = begin_partner(have_two_short_ones, &rendezvous);
	cuda_address memory[2];
	unsigned bytes[2];
	struct gpu gpu;

	gpu_begin(&gpu);
	await_partner(partner, rendezvous);
	begun();
	for (int i = 0; i < 2; i++) {
		must(i ? "to open the second" : "to open the first",
		     cu.ipc_open(&memory[i], rendezvous->handles[i], CUDA_IPC_LAZY_PEER_ACCESS));
		must(i ? "to read the second" : "to read the first",
		     read_byte(&gpu, memory[i], &bytes[i]));
	}
	answer("%lld bytes apart there, %lld here; %02x %02x, expected 11 22",
	       (long long)(rendezvous->at[1] - rendezvous->at[0]),
	       (long long)(memory[1] - memory[0]), bytes[0], bytes[1]);
	end_partner(partner);
}

static void ask_after_a_kill(const struct question *question)
{
	struct rendezvous *rendezvous;
	const pid_t partner = begin_partner(have_two_short_ones, &rendezvous);
	cuda_address memory;
	unsigned byte;
	struct gpu gpu;

	gpu_begin(&gpu);
	await_partner(partner, rendezvous);
	must("to open it", cu.ipc_open(&memory, rendezvous->handles[0], CUDA_IPC_LAZY_PEER_ACCESS));
	must("to read it before", read_byte(&gpu, memory, &byte));
	end_partner(partner);
	begun();
	must("to read it", read_byte(&gpu, memory, &byte));
	answer("readable: %02x, expected 11", byte);
}

/* ---- times */

static double begin_timing(void)
{
	answer("not done in time");
	begun();
	return seconds_now();
}

static void exchange_words(struct gpu *gpu, cuda_address words)
{
	const double from = begin_timing();

	put_turns(gpu->waiting, words, CUDA_MEM_OP_WRITE_64, CUDA_MEM_OP_WAIT_64);
	must("cuStreamSynchronize", cu.stream_synchronize(gpu->waiting));
	answer("%.1f µs", (seconds_now() - from) / TURNS * 1e6);
}

static void ask_words_of_processes(const struct question *question)
{
	struct rendezvous *rendezvous;
	const pid_t partner = begin_partner(answer_words, &rendezvous);
	cuda_address words;
	struct gpu gpu;

	gpu_begin(&gpu);
	await_partner(partner, rendezvous);
	must("cuIpcOpenMemHandle",
	     cu.ipc_open(&words, rendezvous->handles[0], CUDA_IPC_LAZY_PEER_ACCESS));
	exchange_words(&gpu, words);
	end_partner(partner);
}

static void ask_words_of_streams(const struct question *question)
{
	struct gpu gpu;

	gpu_begin(&gpu);
	const cuda_address words = take_filled(&gpu, 0);
	put_turns(gpu.other, words, CUDA_MEM_OP_WAIT_64, CUDA_MEM_OP_WRITE_64);
	exchange_words(&gpu, words);
}

static void ask_chain(const struct question *question)
{
	enum { LINKS = 1000 };
	struct gpu gpu;

	gpu_begin(&gpu);
	const double from = begin_timing();
	for (int i = 0; i < LINKS; i++)
		must("to put something on a stream",
		     gpu_put(&gpu, (enum put)question->what, gpu.other));
	const double put = seconds_now();
	must("cuStreamSynchronize", cu.stream_synchronize(gpu.other));
	answer("%.2f µs each to put there, %.2f µs until done", (put - from) / LINKS * 1e6,
	       (seconds_now() - from) / LINKS * 1e6);
}

static void ask_copy(const struct question *question)
{
	enum { TIMES = 10 };
	const size_t bytes = PROBE_BYTES * (probe_short ? 1 : 256);
	cuda_address from, to;
	struct gpu gpu;

	gpu_begin(&gpu);
	must("cuMemAlloc", cu.mem_alloc(&from, bytes));
	must("cuMemAlloc", cu.mem_alloc(&to, bytes));
	double start = begin_timing();
	for (int i = 0; i <= TIMES; i++) { /* the first one is not counted */
		must("cuMemcpyAsync", cu.mem_copy(to, from, bytes, gpu.other));
		if (i > 0)
			continue;
		must("cuStreamSynchronize", cu.stream_synchronize(gpu.other));
		start = seconds_now();
	}
	must("cuStreamSynchronize", cu.stream_synchronize(gpu.other));
	answer("%.1f GB/s", (double)bytes * TIMES / (seconds_now() - start) * 1e-9);
}

const struct question probe_shares[] = {
	{ "two short allocations by CUDA's IPC", ask_two_in_a_block },
	{ "memory by CUDA's IPC, after its process was killed", ask_after_a_kill },
	{ "a word there and back between streams of two processes", ask_words_of_processes,
	  .limit_s = 5 },
	{ "... of one process", ask_words_of_streams },
	{ "1000 words written in the order of a stream", ask_chain, PUT_WORD },
	{ "1000 empty kernels", ask_chain, PUT_KERNEL },
	{ "copies of 256 MiB within the GPU", ask_copy, .limit_s = 5 },
	{ NULL },
};
