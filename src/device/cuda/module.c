/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the kernels as the library has them (tt_cuda_image, which build_image makes where CUDA's
 * compiler is), and their loading. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>

#include "log.h"

#define FILE_VARIABLE "TUTTI_CUDA_KERNELS"

#ifdef TT_CUDA_IMAGE
extern const char tt_cuda_image[], tt_cuda_image_codes[];
#else
static const char *const tt_cuda_image = NULL, *const tt_cuda_image_codes = "";
#endif

/* Where the code is, and what error messages call it. */
struct image {
	const char *name, *code;
	char *read; /* from a file: to be freed */
};

/* The whole file, a 0 behind it: PTX ends so. */
static char *read_file(FILE *file)
{
	long bytes = -1;
	char *text = NULL;

	if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0)
		text = malloc((size_t)bytes + 1);
	if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
		free(text);
		return NULL;
	}
	if (text)
		text[bytes] = '\0';
	return text;
}

static tutti_result_t open_image(struct image *image)
{
	const char *set = getenv(FILE_VARIABLE);

	*image = (struct image){ .name = "the library", .code = tt_cuda_image };
	if (!set || !*set)
		return image->code
			       ? TUTTI_OK
			       : tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA,
					 "tutti was built without CUDA's compiler and has no kernels for GPUs: build it where nvcc is (-Dcuda=enabled), "
					 "or let " FILE_VARIABLE
					 " name a fat binary or PTX of its src/device/cuda/kernels.cu");
	FILE *file = fopen(set, "re");
	image->name = set;
	image->code = image->read = file ? read_file(file) : NULL;
	const tutti_result_t result =
		image->read ? TUTTI_OK
			    : tt_fail_errno(CUDA, FILE_VARIABLE " is \"%s\", which cannot be read",
					    set);
	if (file)
		fclose(file);
	return result;
}

static tutti_result_t load_failed(const struct image *image, cuda_result error)
{
	const char *codes = image->read ? "other GPUs" : tt_cuda_image_codes;
	int major = 0, minor = 0, version = 0;
	cuda_device device = 0;

	tt_cu.driver_get_version(&version);
	if (tt_cu.context_get_device(&device) == 0) {
		major = tt_cuda_attribute(CUDA_CAPABILITY_MAJOR, device);
		minor = tt_cuda_attribute(CUDA_CAPABILITY_MINOR, device);
	}
	if (error == CUDA_NO_BINARY_FOR_GPU)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"the GPU has compute capability %d.%d, the kernels of %s are for %s: build tutti with a version of CUDA that knows the GPU",
			major, minor, image->name, codes);
	if (error == CUDA_UNSUPPORTED_PTX_VERSION)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"the kernels of %s were built with a newer version of CUDA than this driver's, %d.%d, and are for %s, the GPU has compute capability %d.%d: "
			"install a newer driver, or build tutti with a version of CUDA that is not newer",
			image->name, version / 1000, version % 1000 / 10, codes, major, minor);
	return tt_cuda_check(error, "load the kernels of %s", image->name);
}

/* Where kernels are found, and what failed first. */
struct finder {
	const struct image *image;
	struct CUmod_st *module;
	tutti_result_t result;
};

/* Nothing more once one was not found. */
static void find(struct finder *finder, const char *name, struct CUfunc_st **out)
{
	int threads;

	if (finder->result)
		return;
	cuda_result error = tt_cu.module_get_function(out, finder->module, name);
	if (!error)
		error = tt_cu.function_get_attribute(&threads, CUDA_FUNCTION_THREADS,
						     *out); /* which loads it now */
	finder->result =
		error == CUDA_NOT_FOUND
			? tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA,
				  "%s has no kernel %s: expected what is made of src/device/cuda/kernels.cu of this version",
				  finder->image->name, name)
			: tt_cuda_check(error, "%s", name);
}

static void find_named(struct finder *finder, const char *op, tutti_dtype_t dtype,
		       struct CUfunc_st **out)
{
	char name[64];

	snprintf(name, sizeof(name), "tt_cuda_%s_%s", op, tutti_dtype_name(dtype));
	find(finder, name, out);
}

/* For operations to which it does not matter whether integers have a sign. */
static tutti_dtype_t without_sign(tutti_dtype_t dtype)
{
	switch (dtype) {
	case TUTTI_INT8: return TUTTI_UINT8;
	case TUTTI_INT16: return TUTTI_UINT16;
	case TUTTI_INT32: return TUTTI_UINT32;
	case TUTTI_INT64: return TUTTI_UINT64;
	default: return dtype;
	}
}

static tutti_dtype_t type_of_kernel(int op, tutti_dtype_t dtype)
{
	return op == TUTTI_SUM || op == TUTTI_MIN || op == TUTTI_MAX
		       ? dtype
		       : without_sign(dtype); /* a sum may be divided */
}

static tutti_result_t find_all(const struct image *image, struct tt_cuda_module *module)
{
	static const tutti_dtype_t summed[] = { TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32 };
	struct finder finder = { image, module->module, TUTTI_OK };

	find(&finder, "tt_cuda_copy", &module->copy);
	find(&finder, "tt_cuda_messages", &module->messages);
	find(&finder, "tt_cuda_multicast_copy", &module->multicast_copy);
	for (int i = 0; i < 3; i++)
		find_named(&finder, "multicast", summed[i], &module->multicast[summed[i]]);
	for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
		struct CUfunc_st **average = &module->reduce[TUTTI_AVG][dtype];

		find_named(&finder, "scale", without_sign((tutti_dtype_t)dtype),
			   &module->scale[dtype]);
		for (int op = 0; op < TUTTI_OP_COUNT; op++)
			if (op != TUTTI_AVG && !(op >= TUTTI_BAND && dtype >= TUTTI_FLOAT16))
				find_named(&finder, tutti_op_name(op),
					   type_of_kernel(op, (tutti_dtype_t)dtype),
					   &module->reduce[op][dtype]);
		*average = module->reduce[TUTTI_SUM][dtype];
		if (dtype == TUTTI_INT32 || dtype == TUTTI_UINT32)
			find_named(&finder, tutti_op_name(TUTTI_AVG), (tutti_dtype_t)dtype,
				   average);
	}
	return finder.result;
}

tutti_result_t tt_cuda_module_load(struct tt_cuda_module *module)
{
	struct image image;
	tutti_result_t result = open_image(&image);

	if (!result) {
		const cuda_result error = tt_cu.module_load(&module->module, image.code);

		result = error ? load_failed(&image, error) : find_all(&image, module);
	}
	free(image.read);
	if (result)
		tt_cuda_module_unload(module);
	return result;
}

void tt_cuda_module_unload(struct tt_cuda_module *module)
{
	if (module->module)
		tt_cu.module_unload(module->module);
	*module = (struct tt_cuda_module){ NULL };
}
