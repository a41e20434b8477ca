// SPDX-License-Identifier: BSD-3-Clause
// Who holds the GIL; and letting other threads run Python while this one waits, whether it holds the
// GIL or not: destructors are called both ways.
#pragma once

#include <Python.h>

#include <pybind11/pybind11.h>

namespace tutti_torch
{

inline bool holds_gil()
{
	return Py_IsInitialized() && PyGILState_Check();
}

// Call the handlers of signals that have come, in the interpreter's main thread; throw what they raise.
inline void handle_signals()
{
	const pybind11::gil_scoped_acquire gil;

	if (PyErr_CheckSignals())
		throw pybind11::error_already_set();
}

class ReleaseGil
{
      public:
	ReleaseGil() : state_(holds_gil() ? PyEval_SaveThread() : nullptr)
	{
	}
	~ReleaseGil()
	{
		if (state_)
			PyEval_RestoreThread(state_);
	}
	ReleaseGil(const ReleaseGil &) = delete;
	ReleaseGil &operator=(const ReleaseGil &) = delete;

      private:
	PyThreadState *state_;
};

} // namespace tutti_torch
