/* SPDX-License-Identifier: BSD-3-Clause */
/* The types _core.Window, for one-sided calls of host memory, and _core.CudaWindow, for collectives. */
#ifndef TP_WINDOWS_H
#define TP_WINDOWS_H

#include "communicator.h"

/* Make the types. */
PyObject *tp_window_type(void);
PyObject *tp_cuda_window_type(void);
/* Communicator.window(…) */
PyObject *tp_comm_window(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* Communicator.register_cuda(…) */
PyObject *tp_comm_register_cuda(PyObject *self, PyObject *const *args, Py_ssize_t count,
				PyObject *names);
/* `comm` was destroyed, and its windows with it: let go of their arrays. */
void tp_windows_end_all(struct tp_comm *comm);

#endif
