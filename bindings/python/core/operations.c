/* SPDX-License-Identifier: BSD-3-Clause */
#include "operations.h"

#include <stdint.h>

#include "arguments.h"
#include "errors.h"

struct op {
	PyObject_HEAD
		/* clang-format off */
	struct tp_comm *comm;
	/* clang-format on */
	tutti_op_t number;
};

/* What is no operation of the library: that of dates is made when it is first needed. */
enum { UNDEFINED = -1, DATE_MAX = -2, DURATION_SUM = -3 };

/* by name; logical ones are of bool alone, where they are the bitwise ones of 0 and 1 */
static struct name {
	const char *text;
	tutti_op_t op, of_bool;
	PyObject *interned;
} names[] = {
	{ "sum", TUTTI_SUM, TUTTI_BOR, NULL },	 { "prod", TUTTI_PROD, TUTTI_BAND, NULL },
	{ "min", TUTTI_MIN, TUTTI_BAND, NULL },	 { "max", TUTTI_MAX, TUTTI_BOR, NULL },
	{ "avg", TUTTI_AVG, UNDEFINED, NULL },	 { "band", TUTTI_BAND, TUTTI_BAND, NULL },
	{ "bor", TUTTI_BOR, TUTTI_BOR, NULL },	 { "bxor", TUTTI_BXOR, TUTTI_BXOR, NULL },
	{ "land", UNDEFINED, TUTTI_BAND, NULL }, { "lor", UNDEFINED, TUTTI_BOR, NULL },
	{ "lxor", UNDEFINED, TUTTI_BXOR, NULL },
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static PyTypeObject *op_type;

bool tp_operations_load(void)
{
	for (int i = 0; i < NAMES; i++) {
		names[i].interned = PyUnicode_InternFromString(names[i].text);
		if (!names[i].interned)
			return false;
	}
	return true;
}

static const struct name *find(PyObject *value)
{
	for (int i = 0; i < NAMES; i++) {
		if (names[i].interned == value)
			return &names[i];
	}
	for (int i = 0; PyUnicode_Check(value) && i < NAMES; i++) {
		if (PyUnicode_CompareWithASCIIString(value, names[i].text) == 0)
			return &names[i];
	}
	return NULL;
}

static bool made_op(const char *function, const struct tp_comm *comm, const struct op *op,
		    const struct tp_view *view, tutti_op_t *out)
{
	*out = op->number;
	if (op->comm != comm)
		return tp_invalid("%s(): op was made by another communicator; make it by this one",
				  function);
	if (view->kind == TP_NUMBER || view->kind == TP_COMPLEX)
		return true;
	return tp_invalid("%s(): op was made by premul_sum(), and x has elements of %s, expected "
			  "numbers; convert it, to float32 for example",
			  function, tp_view_type(view));
}

static tutti_op_t op_of_kind(const struct name *name, enum tp_kind kind)
{
	switch (kind) {
	case TP_NUMBER: return name->op;
	case TP_BOOL: return name->of_bool;
	case TP_COMPLEX:
		return name->op == TUTTI_SUM || name->op == TUTTI_AVG ? name->op : UNDEFINED;
	case TP_DATE:
	case TP_DURATION: break;
	case TP_OPAQUE: return UNDEFINED;
	}
	switch (name->op) {
	case TUTTI_MIN: return TUTTI_MIN; /* the least number is NaT, which stays */
	case TUTTI_MAX: return DATE_MAX;
	case TUTTI_SUM: return kind == TP_DURATION ? DURATION_SUM : UNDEFINED;
	default: return UNDEFINED;
	}
}

static const char *ops_of_kind(enum tp_kind kind)
{
	switch (kind) {
	case TP_COMPLEX: return "expected 'sum' or 'avg'";
	case TP_DATE: return "expected 'min' or 'max'";
	case TP_DURATION: return "expected 'sum', 'min' or 'max'";
	case TP_BOOL: return "convert it, to float32 for example";
	default: return "expected a bitwise one, or an array of bool";
	}
}

bool tp_op_of(const char *function, const struct tp_comm *comm, PyObject *value,
	      const struct tp_view *view, tutti_op_t *out)
{
	const struct name *name;

	if (view->kind == TP_OPAQUE)
		return tp_invalid("%s(): x has elements that tutti can move, but not reduce; "
				  "convert it to a type such as float32",
				  function);
	if (value && Py_TYPE(value) == op_type)
		return made_op(function, comm, (const struct op *)value, view, out);
	name = value ? find(value) : &names[0];
	if (!name)
		return tp_invalid("%s(): op is %R, expected 'sum', 'prod', 'min', 'max', 'avg', "
				  "'band', 'bor', 'bxor', of bool also 'land', 'lor', 'lxor'",
				  function, value);
	*out = op_of_kind(name, view->kind);
	if (*out == UNDEFINED)
		return tp_invalid("%s(): op '%s' is not defined for %s; %s", function, name->text,
				  tp_view_type(view), ops_of_kind(view->kind));
	return true;
}

static int64_t date_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t duration_sum(int64_t a, int64_t b) /* wraps, as NumPy's does */
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* `context` points to one of the two; no date (NaT), the least number, with any other is none. */
static void reduce_dates(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
			 void *context)
{
	int64_t (*const *combine)(int64_t a, int64_t b) = context;
	const int64_t *from = in;
	int64_t *to = inout;

	(void)dtype;
	for (size_t i = 0; i < count; i++)
		to[i] = to[i] == INT64_MIN || from[i] == INT64_MIN ? INT64_MIN
								   : (*combine)(to[i], from[i]);
}

static bool make_date_op(struct tp_comm *comm, int which)
{
	static int64_t (*combine[])(int64_t a, int64_t b) = { date_max, duration_sum };
	const tutti_result_t result = tutti_op_create(comm->comm, reduce_dates, 1, &combine[which],
						      &comm->date_ops[which]);

	if (result < 0)
		tp_raise(comm->comm, result);
	return result >= 0;
}

bool tp_op_ready(struct tp_comm *comm, tutti_op_t *op)
{
	const int which = *op == DATE_MAX ? 0 : 1;

	if (*op >= 0)
		return true;
	if (comm->date_ops[which] == 0 && !make_date_op(comm, which))
		return false;
	*op = comm->date_ops[which];
	return true;
}

PyObject *tp_comm_premul_sum(PyObject *object, PyObject *const *args, Py_ssize_t count,
			     PyObject *argument_names)
{
	static struct tp_signature signature = { "premul_sum", 1, 1, { "scalar" }, { NULL } };
	static const struct tp_wanted wanted = { "premul_sum", "scalar", false, NULL };
	struct tp_comm *self = (struct tp_comm *)object;
	PyObject *found[TP_ARGUMENTS_MAX];
	struct op *op = NULL;
	struct tp_view view;
	tutti_result_t result = TUTTI_OK;
	allocfunc allocate = (allocfunc)PyType_GetSlot(op_type, Py_tp_alloc);

	if (!tp_comm_open(self, "premul_sum") ||
	    !tp_arguments(&signature, args, count, argument_names, found) ||
	    !tp_view_take(&view, found[0], &wanted))
		return NULL;
	if (view.kind != TP_NUMBER || view.count != 1)
		tp_invalid("premul_sum(): scalar has %zu elements of %s, expected one number, such "
			   "as numpy.float32(0.5)",
			   view.count, tp_view_type(&view));
	else if (tp_comm_open(self, "premul_sum"))
		op = (struct op *)allocate(op_type, 0);
	if (op)
		result = tutti_op_create_premul_sum(self->comm, view.data, view.dtype, &op->number);
	if (op && result < 0) {
		tp_raise(self->comm, result);
		Py_CLEAR(op);
	}
	tp_view_release(&view);
	if (op) {
		Py_INCREF(object);
		op->comm = self;
	}
	return (PyObject *)op;
}

static PyObject *op_refuse(PyTypeObject *type, PyObject *args, PyObject *named)
{
	(void)type, (void)args, (void)named;
	return tp_refuse_new("Op", "one of comm.premul_sum(), or a name such as 'sum'");
}

static void op_dealloc(PyObject *object)
{
	struct op *self = (struct op *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->comm && self->comm->comm) /* in use by a request: it stays */
		tutti_op_destroy(self->comm->comm, self->number);
	Py_XDECREF((PyObject *)self->comm);
	free_object(object);
	Py_DECREF(type);
}

static PyType_Slot op_slots[] = {
	TP_SLOT(Py_tp_new, op_refuse),
	TP_SLOT(Py_tp_dealloc, op_dealloc),
	{ Py_tp_doc,
	  "A reduction that a communicator made, for the argument `op` of its methods." },
	{ 0, NULL },
};

PyObject *tp_op_type(void)
{
	static PyType_Spec spec = { "tutti._core.Op", sizeof(struct op), 0, Py_TPFLAGS_DEFAULT,
				    op_slots };

	op_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)op_type;
}
