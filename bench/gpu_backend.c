/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's GPU, its stream, and how each measurement is a chain of calls on it. */
#include "gpu_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/cuda.h>

#include "buffers.h"
#include "calls.h"
#include "gpu.h"
#include "lines.h"
#include "nccl_calls.h"
#include "timing.h"

#define ELEMENT 8 /* bytes, at most */

/* The kernels of check.cu, which build_image makes where CUDA's compiler is. */
#ifdef BENCH_CUDA_IMAGE
extern const char bench_cuda_image[], bench_cuda_image_codes[];
#else
static const char bench_cuda_image[] = "", bench_cuda_image_codes[] = "";
#endif

/* What they read and write beside the buffers, in memory of the GPU. */
struct tables {
	struct bench_found found;
	double exact[BENCH_PERIOD];
	unsigned char sent[BENCH_PERIOD * ELEMENT], reduced[BENCH_PERIOD * ELEMENT];
};

struct bench_gpu {
	struct bench_device device;
	char name[128];
	int number;
	gpu_stream_t stream;
	gpu_event_t from, to;
	gpu_graph_t graph;	       /* of a point, with --graph */
	const char *captured;	       /* the algorithm of its calls */
	tutti_cuda_window_t window[2]; /* with --windows */
	struct bench_nccl *nccl;       /* whose calls these are; NULL: tutti's */
	/* of the kernels, in the GPU: they write inputs and check results */
	gpu_module_t module; /* NULL: there are none */
	gpu_kernel_t fill, compare;
	struct tables *tables;
	struct bench_format format; /* of the pattern that they have */
	bool near;
	char without[512]; /* why there are no kernels */
	bool reaches;	   /* all ranks' GPUs reach each other, so nothing goes by the host … */
	char carriers[32]; /* … or by these transports between all ranks */
};

static struct bench_gpu *gpu_of(struct bench_backend *backend)
{
	return bench_tutti_of(backend)->gpu;
}

static int said(struct bench_backend *backend, tutti_result_t result)
{
	return bench_tutti_said(backend, bench_tutti_of(backend)->comm, result);
}

/* Of what CUDA itself was asked. */
static int went(const struct bench_backend *backend, bool well)
{
	if (well)
		return 0;
	fprintf(stderr, "rank %d: %s\n", backend->rank, gpu_error());
	return -1;
}

/* ---- which GPU */

int bench_gpu_missing(const struct bench_options *options)
{
	const int count = gpu_count();

	if (count == 0) {
		bench_complain("-m cuda needs a GPU, and there is none: %s",
			       gpu_open() ? "CUDA's driver shows this process no GPU"
					  : gpu_error());
		return 1;
	}
	if (options->gpu < count)
		return 0;
	bench_complain(
		"--gpu is %d, but this process has %d, counted from 0; leave it out, or see CUDA_VISIBLE_DEVICES",
		options->gpu, count);
	return 2;
}

struct wanted {
	int number;
	char uuid[64];
};

static void look(const tutti_cuda_device_t *device, void *context)
{
	struct wanted *wanted = context;

	if (device->number == wanted->number)
		snprintf(wanted->uuid, sizeof(wanted->uuid), "%s", device->uuid);
}

/* Do all ranks have one GPU, by whatever number? */
static int find_shared(struct bench_backend *backend, struct bench_gpu *gpu)
{
	const tutti_comm_t comm = bench_tutti_of(backend)->comm;
	struct wanted wanted = { .number = gpu->number };
	tutti_result_t rc = tutti_cuda_devices(look, &wanted);

	if (!rc)
		rc = bench_tutti_compare(comm, wanted.uuid, &gpu->device.shared);
	return said(backend, rc);
}

static int put_calls(struct bench_backend *backend, const struct bench_call *calls, unsigned count)
{
	const struct bench_gpu *gpu = gpu_of(backend);
	int put = 0;

	for (unsigned i = 0; i < count && put == 0; i++)
		put = gpu->nccl ? bench_nccl_put(gpu->nccl, &calls[i], gpu->stream)
				: said(backend, bench_call_on_stream(bench_tutti_of(backend),
								     &calls[i], gpu->stream));
	return put;
}

/* ---- the device's table */

static int copy(struct bench_backend *backend, void *to, const void *from, size_t bytes)
{
	return went(backend, gpu_copy(to, from, bytes, gpu_of(backend)->stream));
}

static int finish(struct bench_backend *backend)
{
	return went(backend, gpu_finish(gpu_of(backend)->stream));
}

static int learn(struct bench_backend *backend, const struct bench_pattern *pattern)
{
	struct bench_gpu *gpu = gpu_of(backend);
	struct tables *const to = gpu->tables;

	gpu->format = bench_pattern_format(pattern);
	gpu->near = bench_pattern_exact(pattern, true);
	const size_t bytes = (size_t)BENCH_PERIOD * gpu->format.size;
	return went(backend,
		    gpu_copy(to->sent, pattern->sent, bytes, gpu->stream) &&
			    gpu_copy(to->reduced, pattern->reduced, bytes, gpu->stream) &&
			    gpu_copy(to->exact, pattern->exact, sizeof(to->exact), gpu->stream));
}

static int fill(struct bench_backend *backend, void *to, uint64_t place, size_t count)
{
	const struct bench_gpu *gpu = gpu_of(backend);
	const unsigned char *sent = gpu->tables->sent;
	uint32_t size = gpu->format.size;
	uint64_t elements = count;

	return went(backend,
		    gpu_run(gpu->fill, elements, (void *[]){ &sent, &size, &place, &elements, &to },
			    gpu->stream));
}

/* Add to what is found of a result. */
static bool check_part(const struct bench_gpu *gpu, const struct bench_part *part, uint64_t shift)
{
	struct tables *const tables = gpu->tables;
	const unsigned char *want = part->reduced ? tables->reduced : tables->sent;
	const double *exact = part->reduced && gpu->near ? tables->exact : NULL;
	struct bench_format format = gpu->format;
	struct bench_found *found = &tables->found;
	uint64_t place = bench_part_place(part, shift), count = part->count, base = part->base;
	const void *got = part->got;

	return gpu_run(gpu->compare, count,
		       (void *[]){ &want, &exact, &format, &place, &count, &base, &got, &found },
		       gpu->stream);
}

static int check(struct bench_backend *backend, const struct bench_call *call, uint64_t shift,
		 struct bench_found *found)
{
	const struct bench_gpu *gpu = gpu_of(backend);
	const unsigned parts = bench_call_parts(call, backend->rank, backend->size);
	struct bench_found *const there = &gpu->tables->found;
	bool well = gpu_fill(&there->wrong, 0, sizeof(there->wrong), gpu->stream) &&
		    gpu_fill(&there->error, 0, sizeof(there->error), gpu->stream) &&
		    gpu_fill(&there->first, 0xff, sizeof(there->first), gpu->stream);

	for (unsigned i = 0; i < parts && well; i++) {
		const struct bench_part part = bench_call_part(call, backend->rank, i);

		well = check_part(gpu, &part, shift);
	}
	return went(backend, well && gpu_copy(found, there, sizeof(*found), gpu->stream) &&
				     gpu_finish(gpu->stream));
}

static int enter(struct bench_backend *backend, void *in, void *out, size_t bytes)
{
	const tutti_comm_t comm = bench_tutti_of(backend)->comm;
	struct bench_gpu *gpu = gpu_of(backend);

	if (!gpu->device.windows)
		return 0;
	const tutti_result_t rc = tutti_cuda_register(comm, in, bytes, &gpu->window[0]);
	return said(backend, rc ? rc : tutti_cuda_register(comm, out, bytes, &gpu->window[1]));
}

static int leave(struct bench_backend *backend)
{
	struct bench_gpu *gpu = gpu_of(backend);

	if (!gpu->device.windows)
		return 0;
	const tutti_result_t rc = tutti_cuda_deregister(gpu->window[0]);
	return said(backend, rc ? rc : tutti_cuda_deregister(gpu->window[1]));
}

/* What goes between windows or by the host follows no plan that the library tells of. */
static const char *algorithm_of_last(const struct bench_tutti *tutti)
{
	tutti_plan_info_t info = { .size = sizeof(info) };

	if (tutti->gpu->nccl)
		return NULL;
	return tutti_comm_last_plan(tutti->comm, &info) == TUTTI_OK ? info.algorithm : NULL;
}

static int begin(struct bench_backend *backend, const struct bench_call *calls, unsigned count)
{
	struct bench_gpu *gpu = gpu_of(backend);

	if (!gpu->device.graph)
		return 0;
	if (went(backend, gpu_capture(gpu->stream)) < 0)
		return -1;
	const int put = put_calls(backend, calls, count);
	gpu->captured = algorithm_of_last(bench_tutti_of(backend));
	gpu->graph = gpu_captured(gpu->stream); /* in any case, as nothing else can be put there
						 * before */
	return put < 0 ? put : went(backend, gpu->graph);
}

static void end(struct bench_backend *backend)
{
	struct bench_gpu *gpu = gpu_of(backend);

	if (gpu->graph)
		went(backend, gpu_graph_free(gpu->graph));
	gpu->graph = NULL;
}

/* The stream between two events, once all ranks' streams have come so far. */
static int chain(struct bench_backend *backend, const struct bench_call *calls, unsigned count,
		 struct bench_chain *took)
{
	const struct bench_call barrier = { .kind = BENCH_BARRIER, .op = BENCH_NO_OP };
	const tutti_comm_t comm = bench_tutti_of(backend)->comm;
	struct bench_gpu *gpu = gpu_of(backend);

	if (put_calls(backend, &barrier, 1) < 0 ||
	    went(backend, gpu_record(gpu->from, gpu->stream)) < 0)
		return -1;
	const double start = bench_now();
	if (gpu->graph ? went(backend, gpu_launch(gpu->graph, gpu->stream)) < 0
		       : put_calls(backend, calls, count) < 0)
		return -1;
	took->enqueue = bench_now() - start;
	if (went(backend, gpu_record(gpu->to, gpu->stream) && gpu_finish(gpu->stream)) < 0 ||
	    said(backend, tutti_comm_error(comm, NULL)) < 0)
		return -1;
	took->seconds = gpu_seconds(gpu->from, gpu->to);
	return went(backend, took->seconds >= 0);
}

static int time_copies(struct bench_backend *backend, void *to, const void *from, size_t bytes,
		       size_t stride, unsigned count, double *seconds)
{
	const struct bench_gpu *gpu = gpu_of(backend);
	bool well = gpu_record(gpu->from, gpu->stream);

	for (unsigned i = 0; i < count && well; i++)
		well = gpu_copy((char *)to + i * stride, (const char *)from + i * stride, bytes,
				gpu->stream);
	well = well && gpu_record(gpu->to, gpu->stream) && gpu_finish(gpu->stream);
	*seconds = well ? gpu_seconds(gpu->from, gpu->to) : -1;
	return went(backend, *seconds >= 0);
}

/* ---- the backend's table */

static void *allocate(struct bench_backend *backend, size_t bytes)
{
	struct bench_gpu *gpu = gpu_of(backend);
	void *memory;

	if (said(backend, tutti_cuda_mem_alloc(bytes, &memory)) < 0)
		return NULL;
	if (went(backend, gpu_fill(memory, 0, bytes, gpu->stream) && gpu_finish(gpu->stream)) == 0)
		return memory;
	tutti_cuda_mem_free(memory);
	return NULL;
}

static void release(struct bench_backend *backend, void *memory)
{
	tutti_cuda_mem_free(memory);
}

static int run(struct bench_backend *backend, const struct bench_call *call)
{
	return put_calls(backend, call, 1);
}

/* A graph was launched behind a barrier, which is then the last call. */
static void describe(struct bench_backend *backend, const struct bench_call *call,
		     const char **transport, const char **algorithm)
{
	const struct bench_gpu *gpu = gpu_of(backend);
	const char *found =
		gpu->device.graph ? gpu->captured : algorithm_of_last(bench_tutti_of(backend));

	if (gpu->nccl) {
		*transport = *algorithm = "unknown";
		return;
	}
	bench_tutti_describe_pair(backend, transport, algorithm);
	if (!bench_case(call->kind)->pair) {
		*transport = gpu->carriers;
		*algorithm = found ? found : "unknown";
	}
	if (gpu->reaches)
		*transport = "cuda";
}

static const struct bench_device functions = {
	.copy = copy,
	.finish = finish,
	.learn = learn,
	.fill = fill,
	.check = check,
	.enter = enter,
	.leave = leave,
	.begin = begin,
	.end = end,
	.chain = chain,
	.time_copies = time_copies,
};

/* ---- beginning and end */

static int take_gpu(struct bench_backend *backend, struct bench_gpu *gpu)
{
	if (went(backend, gpu_enter(gpu->number)) < 0)
		return -1;
	const char *name = gpu_name(gpu->number);
	snprintf(gpu->name, sizeof(gpu->name), "%s", name ? name : "a GPU");
	gpu->device.name = gpu->name;
	gpu->stream = gpu_stream();
	gpu->from = gpu->stream ? gpu_event() : NULL;
	gpu->to = gpu->from ? gpu_event() : NULL;
	return went(backend, gpu->to);
}

static void free_kernels(struct bench_gpu *gpu)
{
	if (gpu->tables)
		gpu_free(gpu->tables);
	if (gpu->module)
		gpu_module_free(gpu->module);
	gpu->tables = NULL;
	gpu->module = NULL;
}

/* Into the GPU that the thread has entered. False: TUTTI_BENCH_KERNELS names no file that can be
 * read, which was said. */
static bool load_kernels(struct bench_gpu *gpu)
{
	static const struct gpu_image image = { "tutti-bench", bench_cuda_image,
						bench_cuda_image_codes, "TUTTI_BENCH_KERNELS" };
	bool unread;

	gpu->module = gpu_module(&image, &unread);
	if (unread) {
		bench_complain("%s", gpu_error());
		return false;
	}
	gpu->fill = gpu->module ? gpu_kernel(gpu->module, "bench_fill") : NULL;
	gpu->compare = gpu->fill ? gpu_kernel(gpu->module, "bench_compare") : NULL;
	gpu->tables = gpu->compare ? gpu_alloc(sizeof(*gpu->tables)) : NULL;
	if (!gpu->tables) {
		snprintf(gpu->without, sizeof(gpu->without), "%s", gpu_error());
		gpu->device.without = gpu->without;
		free_kernels(gpu);
	}
	return true;
}

/* A barrier goes by a plan where GPUs reach each other. Where they do not, the host's transports
 * carry everything. */
static int learn_carriers(struct bench_tutti *tutti)
{
	struct bench_backend *backend = &tutti->backend;
	struct bench_gpu *gpu = tutti->gpu;

	if (said(backend, tutti_cuda_barrier(tutti->comm, gpu->stream)) < 0 || finish(backend) < 0)
		return -1;
	gpu->reaches = algorithm_of_last(tutti) != NULL;
	for (int peer = 0; peer < backend->size; peer++) {
		const char *name = tutti_comm_transport(tutti->comm, peer);

		if (peer != backend->rank && !strstr(gpu->carriers, name))
			bench_append(gpu->carriers, sizeof(gpu->carriers), "%s%s",
				     *gpu->carriers ? "+" : "", name);
	}
	return 0;
}

/* The ranks' GPUs are tutti's from here on, or NCCL's. */
static int bind(struct bench_tutti *tutti, const struct bench_options *options)
{
	struct bench_backend *backend = &tutti->backend;
	struct bench_gpu *gpu = tutti->gpu;

	if (!options->nccl)
		return said(backend, tutti_cuda_bind(tutti->comm, gpu->number)) < 0
			       ? -1
			       : learn_carriers(tutti);
	gpu->nccl = bench_nccl_begin(tutti->comm);
	if (!gpu->nccl)
		return -1;
	backend->library = "nccl";
	backend->version = bench_nccl_version(gpu->nccl);
	backend->supports = bench_nccl_supports;
	return 0;
}

int bench_gpu_init(struct bench_tutti *tutti, const struct bench_options *options)
{
	struct bench_backend *backend = &tutti->backend;
	struct bench_gpu *gpu = calloc(1, sizeof(*gpu));

	if (!gpu) {
		fprintf(stderr, "rank %d: no memory for what is known of a GPU\n", backend->rank);
		return -1;
	}
	tutti->gpu = gpu;
	gpu->device = functions;
	gpu->device.windows = options->windows;
	gpu->device.graph = options->graph;
	gpu->device.threads = options->threads;
	gpu->number =
		options->gpu >= 0 ? options->gpu : tutti_comm_local_rank(tutti->comm) % gpu_count();
	if (take_gpu(backend, gpu) < 0 || bind(tutti, options) < 0 ||
	    find_shared(backend, gpu) < 0 || !load_kernels(gpu))
		return -1;
	backend->run = run;
	backend->alloc = allocate;
	backend->release = release;
	backend->describe = describe;
	backend->device = &gpu->device;
	return 0;
}

void bench_gpu_fini(struct bench_tutti *tutti)
{
	struct bench_gpu *gpu = tutti->gpu;

	if (!gpu)
		return;
	bench_nccl_end(gpu->nccl);
	free_kernels(gpu);
	if (gpu->to)
		gpu_event_free(gpu->to);
	if (gpu->from)
		gpu_event_free(gpu->from);
	if (gpu->stream)
		gpu_stream_free(gpu->stream);
	free(gpu);
	tutti->gpu = NULL;
}
