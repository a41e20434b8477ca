/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the benchmark's kernels (bench_cuda_image, which build_image makes where CUDA's compiler
 * is) and what they read and write beside the buffers. */
#include "gpu_check.h"
#include "lines.h"

#include <stddef.h>
#include <stdio.h>

#include "types.h"

#define ELEMENT 8 /* bytes, at most */

#ifdef BENCH_CUDA_IMAGE
extern const char bench_cuda_image[], bench_cuda_image_codes[];
#else
static const char bench_cuda_image[] = "", bench_cuda_image_codes[] = "";
#endif

struct bench_gpu_tables {
	struct bench_found found;
	double exact[BENCH_PERIOD];
	unsigned char sent[BENCH_PERIOD * ELEMENT], reduced[BENCH_PERIOD * ELEMENT];
};

bool bench_gpu_check_init(struct bench_gpu_check *check)
{
	static const struct gpu_image image = { "tutti-bench", bench_cuda_image,
						bench_cuda_image_codes, "TUTTI_BENCH_KERNELS" };
	bool unread;

	*check = (struct bench_gpu_check){ 0 };
	check->module = gpu_module(&image, &unread);
	if (unread) {
		bench_complain("%s", gpu_error());
		return false;
	}
	check->fill = check->module ? gpu_kernel(check->module, "bench_fill") : NULL;
	check->compare = check->fill ? gpu_kernel(check->module, "bench_compare") : NULL;
	check->tables = check->compare ? gpu_alloc(sizeof(*check->tables)) : NULL;
	if (!check->tables) {
		snprintf(check->without, sizeof(check->without), "%s", gpu_error());
		bench_gpu_check_fini(check);
	}
	return true;
}

void bench_gpu_check_fini(struct bench_gpu_check *check)
{
	if (check->tables)
		gpu_free(check->tables);
	if (check->module)
		gpu_module_free(check->module);
	check->tables = NULL;
	check->module = NULL;
}

/* ---- what is on the stream */

bool bench_gpu_check_learn(struct bench_gpu_check *check, const struct bench_pattern *pattern,
			   gpu_stream_t stream)
{
	struct bench_gpu_tables *const to = check->tables;

	check->format = bench_pattern_format(pattern);
	check->near = bench_pattern_exact(pattern, true);
	return gpu_copy(to->sent, pattern->sent, (size_t)BENCH_PERIOD * check->format.size,
			stream) &&
	       gpu_copy(to->reduced, pattern->reduced, (size_t)BENCH_PERIOD * check->format.size,
			stream) &&
	       gpu_copy(to->exact, pattern->exact, sizeof(to->exact), stream);
}

bool bench_gpu_check_fill(const struct bench_gpu_check *check, void *to, uint64_t place,
			  size_t count, gpu_stream_t stream)
{
	const unsigned char *sent = check->tables->sent;
	uint32_t size = check->format.size;
	uint64_t elements = count;

	return gpu_run(check->fill, elements, (void *[]){ &sent, &size, &place, &elements, &to },
		       stream);
}

bool bench_gpu_check_begin(const struct bench_gpu_check *check, gpu_stream_t stream)
{
	struct bench_found *const found = &check->tables->found;

	return gpu_fill(&found->wrong, 0, sizeof(found->wrong), stream) &&
	       gpu_fill(&found->error, 0, sizeof(found->error), stream) &&
	       gpu_fill(&found->first, 0xff, sizeof(found->first), stream);
}

bool bench_gpu_check_part(const struct bench_gpu_check *check, const struct bench_part *part,
			  uint64_t shift, gpu_stream_t stream)
{
	struct bench_gpu_tables *const tables = check->tables;
	const unsigned char *want = part->reduced ? tables->reduced : tables->sent;
	const double *exact = part->reduced && check->near ? tables->exact : NULL;
	struct bench_format format = check->format;
	struct bench_found *found = &tables->found;
	uint64_t place = bench_part_place(part, shift), count = part->count, base = part->base;
	const void *got = part->got;

	return gpu_run(check->compare, count,
		       (void *[]){ &want, &exact, &format, &place, &count, &base, &got, &found },
		       stream);
}

bool bench_gpu_check_end(const struct bench_gpu_check *check, struct bench_found *found,
			 gpu_stream_t stream)
{
	return gpu_copy(found, &check->tables->found, sizeof(*found), stream) && gpu_finish(stream);
}
