/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the kernels as tutti-train has them: build_image makes train_cuda_image where CUDA's
 * compiler is. */
#include "cuda_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef TRAIN_CUDA_IMAGE
extern const char train_cuda_image[], train_cuda_image_codes[];
#else
static const char *const train_cuda_image = NULL, *const train_cuda_image_codes = "";
#endif

static bool load(const char *name, const char *code, const char *codes, gpu_module_t *out)
{
	*out = gpu_module(code);
	if (!*out)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"--device cuda: the kernels of %s cannot be loaded into this GPU: %s; they are for %s",
			name, gpu_error(), codes);
	return true;
}

bool cuda_image_load(gpu_module_t *out)
{
	const char *set = getenv("TUTTI_TRAIN_KERNELS");
	bool ok;
	char *read;

	if (set && *set) {
		read = gpu_read_image(set);
		if (!read)
			return why_set(TUTTI_ERR_INVALID,
				       "TUTTI_TRAIN_KERNELS is \"%s\", which cannot be read: %s",
				       set, strerror(errno));
		ok = load(set, read, "whatever GPUs that file was made for", out);
		free(read);
		return ok;
	}
	if (!*train_cuda_image_codes)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"--device cuda: tutti-train was built without CUDA's compiler and has no kernels for GPUs: build it where nvcc is (-Dcuda=enabled), or let "
			"TUTTI_TRAIN_KERNELS name a fat binary or PTX of its trainer/kernels.cu");
	return load("tutti-train", train_cuda_image, train_cuda_image_codes, out);
}
