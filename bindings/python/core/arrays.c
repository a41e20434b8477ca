/* SPDX-License-Identifier: BSD-3-Clause */
#include "arrays.h"

#include <assert.h>
#include <string.h>

#include "errors.h"
#include "streams.h"

static PyObject *adopt_function, *like_function, *check_function; /* of tutti/_arrays.py */
static PyObject *numpy_array, *numpy_empty_like; /* NULL before an array of NumPy was seen */
static PyTypeObject *checked_type;		 /* the last that check_function let pass */

/* ---------------------------------------------------------------- element types */

struct element {
	tutti_dtype_t dtype;
	size_t per;
	enum tp_kind kind;
};

static bool integer_of(size_t size, bool is_signed, struct element *out)
{
	switch (size) {
	case 1: out->dtype = is_signed ? TUTTI_INT8 : TUTTI_UINT8; return true;
	case 2: out->dtype = is_signed ? TUTTI_INT16 : TUTTI_UINT16; return true;
	case 4: out->dtype = is_signed ? TUTTI_INT32 : TUTTI_UINT32; return true;
	case 8: out->dtype = is_signed ? TUTTI_INT64 : TUTTI_UINT64; return true;
	default: return false;
	}
}

static bool float_of(size_t size, struct element *out)
{
	switch (size) {
	case 2: out->dtype = TUTTI_FLOAT16; return true;
	case 4: out->dtype = TUTTI_FLOAT32; return true;
	case 8: out->dtype = TUTTI_FLOAT64; return true;
	default: return false;
	}
}

/* What a format is read by; between colons are names. */
struct letters {
	const char *at;
	bool in_name;
};

/*
 * The next letter of a format, 0 at its end. NumPy has another format of a type where an array is
 * not aligned: "=d" for "d", "=q" for "l". Both have the same letters here.
 */
static char next_letter(struct letters *letters)
{
	while (!letters->in_name && *letters->at && strchr("@=^<", *letters->at))
		letters->at++;
	const char letter = *letters->at;

	letters->at += letter != 0;
	if (letter == ':')
		letters->in_name = !letters->in_name;
	if (!letters->in_name && (letter == 'q' || letter == 'Q'))
		return letter == 'q' ? 'l' : 'L';
	return letter;
}

static bool has_pointers(const char *format)
{
	struct letters letters = { format, false };
	char letter;

	while ((letter = next_letter(&letters))) {
		if (!letters.in_name && strchr("O&PX", letter))
			return true;
	}
	return false;
}

static bool opaque_of(const char *format, size_t size, struct element *out)
{
	if (size == 0 || has_pointers(format))
		return false;
	*out = (struct element){ TUTTI_UINT8, size, TP_OPAQUE };
	return true;
}

/* the format of the module struct, as PEP 3118 extends it */
static bool element_of_format(const char *format, size_t size, struct element *out)
{
	const char *code = format;

	*out = (struct element){ TUTTI_UINT8, 1, TP_NUMBER };
	if (*code == '@' || *code == '=' || (*code == '<' && code[1] != 0))
		code++;
	if (*code == '>' || *code == '!')
		return false;
	if (code[0] == 'Z' && code[1] != 0 && code[2] == 0) {
		out->per = 2;
		out->kind = TP_COMPLEX;
		return code[1] == 'f' || code[1] == 'd' ? float_of(size / 2, out)
							: opaque_of(format, size, out);
	}
	if (code[0] == 0 || code[1] != 0)
		return opaque_of(format, size, out);
	if (strchr("bhilqn", *code))
		return integer_of(size, true, out);
	if (strchr("BHILQN", *code))
		return integer_of(size, false, out);
	if (strchr("efd", *code))
		return float_of(size, out);
	if (*code == '?' && size == 1) {
		out->kind = TP_BOOL;
		return true;
	}
	return opaque_of(format, size, out);
}

static bool element_of_dlpack(const struct tp_dl_tensor *tensor, struct element *out)
{
	const size_t size = tensor->bits / 8;

	*out = (struct element){ TUTTI_UINT8, 1, TP_NUMBER };
	if (tensor->bits % 8 != 0 || size == 0 || tensor->lanes != 1)
		return false;
	switch (tensor->code) {
	case TP_DL_INT: return integer_of(size, true, out);
	case TP_DL_UINT: return integer_of(size, false, out);
	case TP_DL_FLOAT: return float_of(size, out);
	case TP_DL_BFLOAT: out->dtype = TUTTI_BFLOAT16; return size == 2;
	case TP_DL_COMPLEX:
		out->per = 2;
		out->kind = TP_COMPLEX;
		return size >= 8 && float_of(size / 2, out);
	case TP_DL_BOOL: out->kind = TP_BOOL; return size == 1;
	case TP_DL_FLOAT8_E4M3FN: out->dtype = TUTTI_FLOAT8_E4M3; return size == 1;
	case TP_DL_FLOAT8_E5M2: out->dtype = TUTTI_FLOAT8_E5M2; return size == 1;
	default: return false;
	}
}

const char *tp_view_type(const struct tp_view *view)
{
	switch (view->kind) {
	case TP_BOOL: return "bool";
	case TP_COMPLEX: return view->dtype == TUTTI_FLOAT32 ? "complex64" : "complex128";
	case TP_DATE:
	case TP_DURATION:
	case TP_OPAQUE: return view->name;
	default: return tutti_dtype_name(view->dtype);
	}
}

static void shorten(const char *name, char out[TP_ELEMENT_BYTES])
{
	struct letters letters = { name, false };
	uint32_t hash = 2166136261u; /* FNV-1a */
	bool printable = true;
	size_t length = 0;
	char letter;

	while ((letter = next_letter(&letters))) {
		hash = (hash ^ (uint8_t)letter) * 16777619u;
		printable &= letter > ' ' && letter <= '~';
		if (length < TP_ELEMENT_BYTES)
			out[length++] = letter;
	}
	if (length < TP_ELEMENT_BYTES && printable) {
		out[length] = 0;
		return;
	}
	snprintf(out, TP_ELEMENT_BYTES, "%.2s%06x", name, (unsigned)(hash ^ hash >> 24) & 0xffffff);
}

bool tp_view_element(const struct tp_view *view, char out[TP_ELEMENT_BYTES])
{
	char name[64];

	switch (view->kind) {
	case TP_NUMBER: return false;
	case TP_BOOL: snprintf(name, sizeof(name), "bool"); break;
	case TP_COMPLEX: snprintf(name, sizeof(name), "c%zu", tp_view_item(view)); break;
	case TP_DATE: /* "datetime64[s]" */
		snprintf(name, sizeof(name), "M8%.40s", view->name + strlen("datetime64"));
		break;
	case TP_DURATION:
		snprintf(name, sizeof(name), "m8%.40s", view->name + strlen("timedelta64"));
		break;
	default: shorten(view->name, out); return true;
	}
	shorten(name, out);
	return true;
}

bool tp_view_same_type(const struct tp_view *a, const struct tp_view *b)
{
	char of_a[TP_ELEMENT_BYTES] = "", of_b[TP_ELEMENT_BYTES] = "";

	return a->dtype == b->dtype && a->kind == b->kind && a->per == b->per &&
	       tp_view_element(a, of_a) == tp_view_element(b, of_b) && strcmp(of_a, of_b) == 0;
}

static bool dtype_of_name(const char *name, tutti_dtype_t *out)
{
	for (int i = 0; i < TUTTI_DTYPE_COUNT; i++) {
		if (strcmp(name, tutti_dtype_name((tutti_dtype_t)i)) == 0) {
			*out = (tutti_dtype_t)i;
			return true;
		}
	}
	return false;
}

/* ---------------------------------------------------------------- views */

static bool refuse_type(const struct tp_wanted *wanted, const char *found)
{
	return tp_invalid("%s(): the elements of %s have the format '%s', expected numbers in this "
			  "machine's byte order, such as float32; convert by astype(), objects go "
			  "by the methods ..._object()",
			  wanted->function, wanted->name, found);
}

static void set_element(struct tp_view *view, const struct element *element)
{
	view->dtype = element->dtype;
	view->per = element->per;
	view->kind = element->kind;
}

static bool take_buffer(struct tp_view *view, PyObject *array, int flags,
			const struct tp_wanted *wanted)
{
	struct element element;
	Py_buffer *buffer = &view->buffer;

	if (PyObject_GetBuffer(array, buffer, flags) < 0)
		return false;
	view->has_buffer = true;
	if (!element_of_format(buffer->format ? buffer->format : "B", (size_t)buffer->itemsize,
			       &element)) {
		refuse_type(wanted, buffer->format);
		tp_view_release(view);
		return false;
	}
	set_element(view, &element);
	view->data = buffer->buf;
	view->count = buffer->itemsize ? (size_t)(buffer->len / buffer->itemsize) : 0;
	view->name = buffer->format;
	view->shape = buffer->shape;
	view->ndim = buffer->ndim;
	view->readonly = buffer->readonly;
	return true;
}

/* Why did an exporter of buffers refuse? The array is looked at without conditions to tell. */
static void explain_refusal(PyObject *array, const struct tp_wanted *wanted)
{
	Py_buffer buffer;

	if (PyErr_ExceptionMatches(PyExc_MemoryError) || tp_invalid_occurred())
		return;
	PyErr_Clear();
	if (PyObject_GetBuffer(array, &buffer, PyBUF_FULL_RO) < 0)
		return; /* its own words */
	if (wanted->writable && buffer.readonly)
		tp_invalid("%s(): %s is read-only, and would be written; pass a copy of it",
			   wanted->function, wanted->name);
	else
		tp_invalid("%s(): the elements of %s do not follow each other in memory, expected "
			   "a C-contiguous array; pass numpy.ascontiguousarray(%s)",
			   wanted->function, wanted->name, wanted->name);
	PyBuffer_Release(&buffer);
}

static bool is_contiguous(const struct tp_dl_tensor *tensor)
{
	int64_t expected = 1;

	if (!tensor->strides)
		return true;
	for (int i = 0; i < tensor->ndim; i++) {
		if (tensor->shape[i] == 0)
			return true;
	}
	for (int i = tensor->ndim - 1; i >= 0; i--) {
		if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
			return false;
		expected *= tensor->shape[i];
	}
	return true;
}

static bool is_gpu(int32_t device_type)
{
	return device_type == TP_DL_CUDA || device_type == TP_DL_CUDA_MANAGED;
}

static bool fill_from_dlpack(struct tp_view *view, const struct tp_dl_tensor *tensor, bool readonly,
			     const struct tp_wanted *wanted)
{
	struct element element;

	static_assert(sizeof(int64_t) == sizeof(Py_ssize_t),
		      "shapes of DLPack are used as they are");
	view->on_gpu = is_gpu(tensor->device_type);
	if (view->on_gpu &&
	    !tp_stream_admits(wanted, tensor->device_type == TP_DL_CUDA_MANAGED, tensor->device_id))
		return false;
	if (!view->on_gpu && tensor->device_type != TP_DL_CPU &&
	    tensor->device_type != TP_DL_CUDA_HOST)
		return tp_invalid("%s(): %s is on a device of DLPack's type %d, expected memory of "
				  "the host or of a GPU of CUDA's; copy it there",
				  wanted->function, wanted->name, (int)tensor->device_type);
	if (wanted->writable && readonly)
		return tp_invalid("%s(): %s is read-only, and would be written; pass a copy of it",
				  wanted->function, wanted->name);
	if (!wanted->any_layout && !is_contiguous(tensor))
		return tp_invalid("%s(): the elements of %s do not follow each other in memory, "
				  "expected a contiguous array; pass %s.contiguous()",
				  wanted->function, wanted->name, wanted->name);
	if (!element_of_dlpack(tensor, &element))
		return tp_invalid("%s(): the elements of %s have DLPack's type %d of %d bits, "
				  "which tutti does not know; convert it, to float32 for example",
				  wanted->function, wanted->name, (int)tensor->code,
				  (int)tensor->bits);
	set_element(view, &element);
	view->data = (char *)tensor->data + tensor->byte_offset;
	view->shape = (const Py_ssize_t *)tensor->shape;
	view->ndim = tensor->ndim;
	view->readonly = readonly;
	view->count = 1;
	for (int i = 0; i < tensor->ndim; i++)
		view->count *= (size_t)tensor->shape[i];
	return true;
}

/* The array's library refused, with BufferError mostly; its words say why. false */
static bool explain_export(const struct tp_wanted *wanted)
{
	PyObject *type, *value, *traceback;

	if (!PyErr_ExceptionMatches(PyExc_Exception) || tp_invalid_occurred() ||
	    PyErr_ExceptionMatches(PyExc_MemoryError))
		return false;
	PyErr_Fetch(&type, &value, &traceback);
	tp_invalid("%s(): %s cannot be used, as its library says: %S", wanted->function,
		   wanted->name, value ? value : type);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return false;
}

/*
 * The stream for __dlpack__(), on which the array's library orders its own work before: a new
 * reference. NULL without an error for arrays on the host, and for calls that take no others,
 * which are spared the question.
 */
static PyObject *stream_for(PyObject *array, const struct tp_wanted *wanted)
{
	struct tp_stream *stream = wanted->stream;
	int type, device;

	if (!stream || stream->refusal || stream->gpu < 0)
		return NULL;
	if (!tp_dlpack_device(array, &type, &device)) {
		explain_export(wanted);
		return NULL;
	}
	if (!is_gpu(type) || !tp_stream_admits(wanted, type == TP_DL_CUDA_MANAGED, device) ||
	    !tp_stream_choose(stream, wanted->function, array) || !tp_stream_lend(stream, array))
		return NULL;
	return tp_stream_number(stream);
}

static bool take_dlpack(struct tp_view *view, PyObject *array, const struct tp_wanted *wanted)
{
	PyObject *stream = stream_for(array, wanted);
	const struct tp_dl_tensor *tensor;
	bool readonly;

	if (!stream && PyErr_Occurred())
		return false;
	view->owner = tp_dlpack_ask(array, stream, &tensor, &readonly);
	Py_XDECREF(stream);
	if (!view->owner)
		return explain_export(wanted);
	if (fill_from_dlpack(view, tensor, readonly, wanted))
		return true;
	tp_view_release(view);
	return false;
}

static int flags_of(const struct tp_wanted *wanted)
{
	return PyBUF_FORMAT | (wanted->any_layout ? PyBUF_STRIDES : PyBUF_C_CONTIGUOUS) |
	       (wanted->writable ? PyBUF_WRITABLE : 0);
}

static bool refuse_object(PyObject *object, const struct tp_wanted *wanted)
{
	return tp_invalid(
		"%s(): %s is %.200R of type %R, expected an array: one of NumPy, PyTorch, or "
		"another with the buffer protocol or DLPack; single numbers as "
		"numpy.array(value), other objects by the methods ..._object()",
		wanted->function, wanted->name, object, Py_TYPE(object));
}

/* The element type of an adopted array by its name, such as "bfloat16" or "datetime64[s]". */
static bool name_element(struct tp_view *view, PyObject *name, const struct tp_wanted *wanted)
{
	view->name = PyBytes_AsString(name);
	if (!view->name)
		return false;
	if (strncmp(view->name, "datetime64", strlen("datetime64")) == 0)
		view->kind = TP_DATE;
	else if (strncmp(view->name, "timedelta64", strlen("timedelta64")) == 0)
		view->kind = TP_DURATION;
	else if (!dtype_of_name(view->name, &view->dtype))
		return refuse_type(wanted, view->name);
	return true;
}

/* what _arrays.py makes of it: None, or an exporter of buffers and the name of the element type */
static bool take_adopted(struct tp_view *view, PyObject *array, const struct tp_wanted *wanted)
{
	PyObject *pair =
		PyObject_CallFunction(adopt_function, "Oss", array, wanted->function, wanted->name);
	PyObject *bytes;

	if (!pair)
		return false;
	if (pair == Py_None) {
		Py_DECREF(pair);
		if (tp_dlpack_has(array)) /* JAX has buffers, but of some types */
			return take_dlpack(view, array, wanted);
		return refuse_object(array, wanted);
	}
	bytes = PyTuple_GetItem(pair, 0);
	view->owner = pair; /* has the name */
	if (take_buffer(view, bytes, flags_of(wanted), wanted)) {
		if (name_element(view, PyTuple_GetItem(pair, 1), wanted))
			return true;
	} else if (!tp_invalid_occurred()) {
		explain_refusal(bytes, wanted);
	}
	tp_view_release(view);
	return false;
}

/* Does the buffer tell all? _arrays.py knows; -1: it refuses what would be lost, such as masks. */
static int is_told(PyObject *array, const struct tp_wanted *wanted)
{
	PyTypeObject *before;
	PyObject *answer;

	if (Py_TYPE(array) == checked_type)
		return 1;
	answer =
		PyObject_CallFunction(check_function, "Oss", array, wanted->function, wanted->name);
	Py_XDECREF(answer);
	if (answer != Py_True)
		return answer ? 0 : -1;
	before = checked_type; /* other threads may have been here during the call */
	checked_type = Py_TYPE(array);
	Py_INCREF((PyObject *)checked_type);
	Py_XDECREF((PyObject *)before);
	return 1;
}

bool tp_view_take(struct tp_view *view, PyObject *array, const struct tp_wanted *wanted)
{
	view->owner = NULL;
	view->on_gpu = view->has_buffer = false;
	if (PyObject_CheckBuffer(array)) {
		const int told = is_told(array, wanted);

		if (told <= 0)
			return told == 0 && take_adopted(view, array, wanted);
		if (take_buffer(view, array, flags_of(wanted), wanted))
			return true;
		explain_refusal(array, wanted);
		if (tp_invalid_occurred() || PyErr_ExceptionMatches(PyExc_MemoryError))
			return false;
		PyErr_Clear(); /* NumPy has types that its buffers cannot tell of */
		return take_adopted(view, array, wanted);
	}
	if (tp_dlpack_has(array))
		return take_dlpack(view, array, wanted);
	return take_adopted(view, array, wanted);
}

/* The end of a capsule may run code of Python, which must not meet the error of a call. Apart, as
 * arrays with buffers, which come most, have none. */
static __attribute__((noinline)) void drop_owner(struct tp_view *view)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	Py_CLEAR(view->owner);
	PyErr_Restore(type, value, traceback);
}

void tp_view_release(struct tp_view *view)
{
	if (view->has_buffer)
		PyBuffer_Release(&view->buffer);
	view->has_buffer = false;
	if (view->owner)
		drop_owner(view);
}

bool tp_view_normalize(struct tp_view *view)
{
	const unsigned char *from = view->data;
	PyObject *copy;
	unsigned char *to, bits = 0;

	if (view->kind != TP_BOOL || view->on_gpu)
		return true;
	for (size_t i = 0; i < view->count; i++)
		bits |= from[i];
	if (bits <= 1)
		return true;
	copy = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)view->count);
	if (!copy)
		return false;
	to = (unsigned char *)PyByteArray_AsString(copy);
	for (size_t i = 0; i < view->count; i++)
		to[i] = from[i] != 0;
	tp_view_release(view); /* nothing of the array is looked at any more */
	view->data = to;
	view->owner = copy;
	return true;
}

/* ---------------------------------------------------------------- new arrays */

PyObject *tp_shape_tuple(const Py_ssize_t *shape, int ndim)
{
	PyObject *tuple = PyTuple_New(ndim);

	for (int i = 0; tuple && i < ndim; i++) {
		PyObject *length = PyLong_FromSsize_t(shape[i]);

		if (!length || PyTuple_SetItem(tuple, i, length) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

PyObject *tp_array_like(PyObject *like, const struct tp_view *view, const Py_ssize_t *shape,
			int ndim, PyObject **finish)
{
	PyObject *lengths, *pair, *array = NULL;

	*finish = NULL;
	if (numpy_array && (PyObject *)Py_TYPE(like) == numpy_array && !shape)
		return PyObject_CallFunctionObjArgs(numpy_empty_like, like, NULL);
	lengths = shape ? tp_shape_tuple(shape, ndim) : tp_shape_tuple(view->shape, view->ndim);
	if (!lengths)
		return NULL;
	pair = PyObject_CallFunctionObjArgs(like_function, like, lengths, NULL);
	Py_DECREF(lengths);
	if (!pair)
		return NULL;
	array = PyTuple_GetItem(pair, 0);
	*finish = PyTuple_GetItem(pair, 1);
	Py_XINCREF(array);
	if (*finish == Py_None)
		*finish = NULL;
	Py_XINCREF(*finish);
	Py_DECREF(pair);
	return array;
}

bool tp_arrays_load(PyObject *module)
{
	PyObject *arrays = PyImport_ImportModule("tutti._arrays");

	(void)module;
	if (!arrays)
		return false;
	adopt_function = PyObject_GetAttrString(arrays, "adopt");
	like_function = PyObject_GetAttrString(arrays, "like");
	check_function = PyObject_GetAttrString(arrays, "check");
	Py_DECREF(arrays);
	return adopt_function && like_function && check_function;
}

PyObject *tp_arrays_fast(PyObject *module, PyObject *args)
{
	PyObject *type, *empty_like;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO", &type, &empty_like))
		return NULL;
	Py_INCREF(type);
	Py_INCREF(empty_like);
	Py_XDECREF(numpy_array);
	Py_XDECREF(numpy_empty_like);
	numpy_array = type;
	numpy_empty_like = empty_like;
	Py_RETURN_NONE;
}
