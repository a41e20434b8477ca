// SPDX-License-Identifier: BSD-3-Clause
// Owns the library's kernels, compiled for the host, and how a grid of any runs.
//
// The library's kernels meet others while they run: their blocks are threads of the host, and a
// block's threads take turns at barriers, each on a stack of its own. A few of either are enough, as
// these kernels take any number. Of other kernels all threads run one after the other, each to its
// end.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include "cuda_shim.h"
#include "cuda/kernels.cu"
#include "kernel.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREADS 1 // they do not know of other stacks
#else
#define THREADS 3
#endif
#define BLOCKS	    3
#define STACK_BYTES 65536
#define KEPT_MOST   65536
#define EAGER	    16 // looks before a thread that waits sleeps between them
#define SLEEP_NS    20000

typedef void program_kernel(struct tt_cuda_program program);
typedef void post_kernel(struct tt_cuda_post post);

extern "C" {

// of the section that __global__ puts kernels into
extern const char __start_standin_kernels[] __attribute__((visibility("hidden")));
extern const char __stop_standin_kernels[] __attribute__((visibility("hidden")));
}

// tests/gpu/probe's own
static void probe_nothing(void)
{
}

bool standin_kernel_named(const char *name, struct standin_kernel *out)
{
	Dl_info self;

	if (strcmp(name, "probe_nothing") == 0) {
		*out = standin_call<void()>::kernel(probe_nothing);
		return true;
	}
	if (standin_program_kernel_named(name, out))
		return true;
	if (!dladdr((const void *)&standin_kernel_named, &self))
		return false;
	void *const library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	const char *const found = library ? (const char *)dlsym(library, name) : nullptr;

	if (library)
		dlclose(library);
	if (found < __start_standin_kernels || found >= __stop_standin_kernels)
		return false;
	if (strcmp(name, "tt_cuda_messages") == 0) {
		*out = standin_call<post_kernel>::kernel((post_kernel *)found);
		out->library = standin_kernel::STANDIN_POST;
		return true;
	}
	*out = standin_call<program_kernel>::kernel((program_kernel *)found);
	out->library = standin_kernel::STANDIN_PROGRAM;
	return true;
}

// ---- what a block has stored and not shown yet

struct kept {
	void *to;
	unsigned bytes;
	alignas(16) char value[16];
};
static thread_local std::vector<struct kept> *kept; // of the block that runs here

// Also where a block has stored much, as a GPU would.
static void show_kept(void)
{
	for (const struct kept &one : *kept)
		memcpy(one.to, one.value, one.bytes);
	kept->clear();
}

static const char *without_fence(void)
{
	static const char *const functions = getenv("STANDIN_WITHOUT_FENCE");

	return functions;
}

void standin_fence(const char *function)
{
	if (!without_fence() || !strstr(without_fence(), function))
		show_kept();
}

void standin_store(void *to, const void *value, unsigned bytes)
{
	struct kept one;

	one.to = to;
	one.bytes = bytes;
	memcpy(one.value, value, bytes);
	kept->push_back(one);
	if (kept->size() == KEPT_MOST)
		show_kept();
}

// ---- a block of the library's

struct threads {
	ucontext_t outside, context[THREADS];
	unsigned count, left, waiting, barriers;
	bool ended[THREADS];
	const struct standin_kernel *kernel;
	const void *const *arguments;
};
static thread_local struct threads *threads; // of the block that runs here; none: the only one

static void let_others_run(void)
{
	const unsigned own = threadIdx.x;
	unsigned next = own;

	do
		next = (next + 1) % threads->count;
	while (threads->ended[next] && next != own);
	if (next == own)
		return;
	threadIdx.x = next;
	swapcontext(&threads->context[own], &threads->context[next]);
	threadIdx.x = own;
}

static void end_barrier_of_all(void)
{
	if (threads->waiting < threads->left)
		return;
	threads->waiting = 0;
	threads->barriers++;
}

void standin_barrier(void)
{
	if (!threads)
		return;
	const unsigned ended = threads->barriers;

	threads->waiting++;
	end_barrier_of_all();
	while (threads->barriers == ended)
		let_others_run();
}

// Whoever it waits for may be another process, and the machine may have fewer cores than blocks run.
void standin_pause(unsigned looks)
{
	const unsigned sleeps = looks < EAGER ? 0 : (looks - EAGER) / 4;
	const struct timespec some = { 0, SLEEP_NS << (sleeps < 5 ? sleeps : 5) };

	if (looks < EAGER)
		sched_yield();
	else
		nanosleep(&some, nullptr);
	if (threads)
		let_others_run();
}

uint64_t standin_nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_thread(void)
{
	threads->kernel->call(threads->kernel->function, threads->arguments);
	threads->ended[threadIdx.x] = true;
	if (--threads->left == 0)
		setcontext(&threads->outside);
	end_barrier_of_all();
	let_others_run();
}

static void run_threads(const struct standin_kernel *kernel, const void *const *arguments)
{
	alignas(16) char stacks[THREADS][STACK_BYTES];
	struct threads all;

	all.count = all.left = blockDim.x;
	all.waiting = all.barriers = 0;
	all.kernel = kernel;
	all.arguments = arguments;
	for (unsigned i = 0; i < all.count; i++) {
		all.ended[i] = false;
		getcontext(&all.context[i]);
		all.context[i].uc_stack.ss_sp = stacks[i];
		all.context[i].uc_stack.ss_size = STACK_BYTES;
		all.context[i].uc_link = nullptr;
		makecontext(&all.context[i], run_thread, 0);
	}
	threads = &all;
	threadIdx = { 0, 0, 0 };
	swapcontext(&all.outside, &all.context[0]);
	threads = nullptr;
}

struct block {
	pthread_t thread;
	unsigned number, blocks, threads;
	const struct standin_kernel *kernel;
	const void *const *arguments;
};

static void *run_block(void *argument)
{
	const struct block *block = (const struct block *)argument;
	std::vector<struct kept> own;

	kept = &own;
	gridDim = { block->blocks, 1, 1 };
	blockDim = { block->threads, 1, 1 };
	blockIdx = { block->number, 0, 0 };
	threadIdx = { 0, 0, 0 };
	if (block->threads > 1)
		run_threads(block->kernel, block->arguments);
	else
		block->kernel->call(block->kernel->function, block->arguments);
	if (without_fence()) // others are to come first
		usleep(2000);
	show_kept();
	kept = nullptr;
	return nullptr;
}

// The first block runs here.
static void run_of_library(const struct standin_kernel *kernel, unsigned wanted, unsigned wide,
			   const void *const *arguments)
{
	struct block blocks[BLOCKS];
	const unsigned count = wanted < BLOCKS ? wanted : BLOCKS;
	unsigned begun = 1;

	for (unsigned i = 0; i < count; i++)
		blocks[i] = { 0, i, count, wide < THREADS ? wide : THREADS, kernel, arguments };
	for (; begun < count; begun++)
		if (pthread_create(&blocks[begun].thread, nullptr, run_block, &blocks[begun]))
			abort();
	run_block(&blocks[0]);
	for (unsigned i = 1; i < count; i++)
		pthread_join(blocks[i].thread, nullptr);
}

// ---- any other kernel

static void run_in_order(const struct standin_kernel *kernel, const void *const *arguments)
{
	for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) {
		for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
			for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
				kernel->call(kernel->function, arguments);
		}
	}
}

void standin_kernel_run(const struct standin_kernel *kernel, const unsigned grid[3],
			const unsigned block[3], const char *arguments)
{
	const void *each[ARGUMENTS_MAX];
	size_t at = 0;

	for (unsigned i = 0; i < kernel->count; i++) {
		each[i] = arguments + at;
		at = standin_argument_end(at, kernel->bytes[i]);
	}
	if (kernel->library != standin_kernel::STANDIN_NO_LIBRARY) {
		run_of_library(kernel, grid[0], block[0], each);
		return;
	}
	gridDim = { grid[0], grid[1], grid[2] };
	blockDim = { block[0], block[1], block[2] };
	for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
		for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
			for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
				run_in_order(kernel, each);
		}
	}
}
