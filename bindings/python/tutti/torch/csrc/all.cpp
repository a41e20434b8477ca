// SPDX-License-Identifier: BSD-3-Clause
// What the compiler is given: PyTorch's headers take most of the time, and so are read once.
#include "backend.cpp"
#include "call.cpp"
#include "callers.cpp"
#include "comm.cpp"
#include "completions.cpp"
#include "host_work.cpp"
#include "module.cpp"
#include "monitored_barrier.cpp"
#include "stream_work.cpp"
#include "types.cpp"
#include "work.cpp"
