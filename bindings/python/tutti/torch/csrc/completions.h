// SPDX-License-Identifier: BSD-3-Clause
// Threads that complete futures. A callback of a future may wait for another future of the same
// communicator (PowerSGD's hook does), which the progress thread has to complete: it must not run
// the callback itself. A thread is added whenever all are busy, so that a waiting one blocks none.
#pragma once

#include <functional>

namespace tutti_torch
{

// Run `job` in one of the threads, soon. Does not block on other jobs.
void run_soon(std::function<void()> job);

// The interpreter ends: wait for the jobs, 10 s at most, and take no more. Its end would end a thread
// that asks for the GIL, in the midst of C++, which ends the process by SIGABRT.
void finish_soon();

} // namespace tutti_torch
