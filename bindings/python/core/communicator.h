/* SPDX-License-Identifier: BSD-3-Clause */
/* The type _core.Communicator, of which tutti.Communicator is made. */
#ifndef TP_COMMUNICATOR_H
#define TP_COMMUNICATOR_H

#include <stdbool.h>

#include <tutti/tutti.h>

#include "python.h"

struct tp_view;

struct tp_flight;
struct tp_group;
struct tp_exposed;

struct tp_comm {
	PyObject_HEAD
		/* clang-format off */
	tutti_comm_t comm; /* NULL: closed */
	/* clang-format on */
	int rank;
	int size;
	tutti_op_t date_ops[2];	    /* of operations.c; 0: not made */
	int gpu;		    /* to which it is bound; -1: to none */
	bool callers;		    /* the flight recorder is told who calls */
	int users;		    /* threads that are inside the library with it */
	int orphans;		    /* flights whose request nobody holds any more */
	struct tp_flight *flights;  /* that have not ended */
	struct tp_group *groups;    /* that are open, of several threads */
	struct tp_exposed *exposed; /* arrays of windows that have not ended */
};

/* Make the type. */
PyObject *tp_communicator_type(void);

/* The communicator, for what needs no argument; an error and NULL if it is closed. */
tutti_comm_t tp_comm_open(struct tp_comm *self, const char *function);

/*
 * The communicator of a call whose arguments are taken, or an error and NULL. The last thing before
 * the call that may run code of Python, which can close the communicator, as another thread can.
 *
 * The next call of this thread takes `timeout`, seconds as Python has them; NULL or None: no. Ranks
 * compare the type of `view` as far as the library does not know it; NULL: there is none. The flight
 * recorder is told where the call stands, if that is wanted.
 */
tutti_comm_t tp_comm_next_call(struct tp_comm *self, const char *function, PyObject *timeout,
			       const struct tp_view *view);

#endif
