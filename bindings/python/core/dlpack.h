/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DLPack: arrays of other libraries by a description in memory, inside a capsule of Python. The
 * structs are those of its specification, versions 0 ("dltensor") and 1 ("dltensor_versioned").
 */
#ifndef TP_DLPACK_H
#define TP_DLPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "python.h"

enum tp_dl_device { TP_DL_CPU = 1, TP_DL_CUDA = 2, TP_DL_CUDA_HOST = 3, TP_DL_CUDA_MANAGED = 13 };

enum tp_dl_code {
	TP_DL_INT = 0,
	TP_DL_UINT = 1,
	TP_DL_FLOAT = 2,
	TP_DL_BFLOAT = 4,
	TP_DL_COMPLEX = 5,
	TP_DL_BOOL = 6,
	TP_DL_FLOAT8_E4M3FN = 10,
	TP_DL_FLOAT8_E5M2 = 12
};

struct tp_dl_tensor {
	void *data;
	int32_t device_type;
	int32_t device_id;
	int32_t ndim;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: contiguous */
	uint64_t byte_offset;
};

/* Does the type of `object` have the protocol? */
bool tp_dlpack_has(PyObject *object);

/* The device of `object`, in DLPack's numbers. */
bool tp_dlpack_device(PyObject *object, int *type, int *device);

/*
 * Ask `object` for its description. The capsule, a new reference, keeps it; it is not consumed, so
 * its end tells the library that we are done. `stream` as __dlpack__() takes it, or NULL.
 */
PyObject *tp_dlpack_ask(PyObject *object, PyObject *stream, const struct tp_dl_tensor **out,
			bool *readonly);

#endif
