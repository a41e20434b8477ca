// SPDX-License-Identifier: BSD-3-Clause
// Who holds the GIL; and letting other threads run Python while this one waits, whether it holds the
// GIL or not: destructors are called both ways.
#pragma once

#include <Python.h>

namespace tutti_torch
{

inline bool holds_gil()
{
	return Py_IsInitialized() && PyGILState_Check();
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
