/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays of any library as memory, a count and an element type: by the buffer protocol, by DLPack,
 * or by what tutti/_arrays.py makes of them. And new arrays like given ones.
 */
#ifndef TP_ARRAYS_H
#define TP_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "dlpack.h"
#include "python.h"

struct tp_stream;

/* What the elements are, beyond the library's types. */
enum tp_kind {
	TP_NUMBER,   /* an element type of the library */
	TP_BOOL,     /* uint8 of 0 and 1: reductions are logical */
	TP_COMPLEX,  /* two floats: sums and averages only */
	TP_DATE,     /* int64, the least of which is no date (NaT): minimum and maximum only */
	TP_DURATION, /* the same, and sums */
	TP_OPAQUE    /* bytes that can be moved, not reduced */
};

struct tp_view {
	void *data;
	size_t count;		 /* elements as the array's owner counts them */
	const Py_ssize_t *shape; /* of `ndim` entries, while the view is held */
	int ndim;
	size_t per; /* elements of `dtype` in one of the array's */
	tutti_dtype_t dtype;
	enum tp_kind kind;
	const char *name; /* of the type of dates and opaque elements: "datetime64[s]", "3w" */
	bool readonly;
	bool on_gpu; /* or in managed memory: `data` is CUDA's */
	bool has_buffer;
	Py_buffer buffer;
	PyObject *owner; /* a capsule, or what was made of the array; may be NULL */
};

/* How a view is asked for, and what messages call the array. */
struct tp_wanted {
	const char *function;
	const char *name;
	bool writable;
	struct tp_stream *stream; /* of the call, for arrays on GPUs; NULL: it takes none */
	bool any_layout;	  /* the elements need not follow each other: they are copied */
};

/* Take hold of an array's memory. On failure there is an error and nothing to be released. */
bool tp_view_take(struct tp_view *view, PyObject *array, const struct tp_wanted *wanted);
void tp_view_release(struct tp_view *view);

/* The library's count of elements. */
static inline size_t tp_view_elements(const struct tp_view *view)
{
	return view->count * view->per;
}

/* the size of an element as the array's owner counts them */
static inline size_t tp_view_item(const struct tp_view *view)
{
	return view->per * tutti_dtype_size(view->dtype);
}

/* "float32", "complex64", "datetime64[s]" …; of opaque elements the format of the buffer */
const char *tp_view_type(const struct tp_view *view);

/* What ranks compare besides the library's type, for tutti_next_element(): NumPy's name where it is short
 * enough, else its beginning and a digest. False: the library's type says it all. */
#define TP_ELEMENT_BYTES 9
bool tp_view_element(const struct tp_view *view, char out[TP_ELEMENT_BYTES]);

/* Are the elements of both of one type? Messages can then name both types by tp_view_type(). */
bool tp_view_same_type(const struct tp_view *a, const struct tp_view *b);

/*
 * Make the booleans of a view, which is read only, bytes of 0 and 1, by a copy where they are not.
 * NumPy takes every byte but 0 for true, and bitwise operations do not. Those on GPUs stay.
 */
bool tp_view_normalize(struct tp_view *view);

/* a shape as Python has it */
PyObject *tp_shape_tuple(const Py_ssize_t *shape, int ndim);

/*
 * A new array like `like`, with its shape, or of `ndim` lengths `shape` where that is not NULL.
 * `*finish` is NULL, or what has to be called with the array when it holds the result (a new
 * reference): for libraries whose arrays cannot be written.
 */
PyObject *tp_array_like(PyObject *like, const struct tp_view *view, const Py_ssize_t *shape,
			int ndim, PyObject **finish);

/* Python's part: tutti/_arrays.py */
bool tp_arrays_load(PyObject *module);
/* the module's function with which _arrays.py says what NumPy's arrays are */
PyObject *tp_arrays_fast(PyObject *module, PyObject *args);

#endif
