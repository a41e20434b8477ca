// SPDX-License-Identifier: BSD-3-Clause
// A barrier that names the ranks that did not come, and leaves the group usable.
#pragma once

#include <chrono>
#include <cstdint>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tutti_torch
{

// The ranks meet in `store`, not in the communicator, which a missed deadline would end. Rank 0 waits
// for each, and tells them the outcome. `number`: of the group's barriers. `all`: name all that are
// missing, not only the first.
void monitored_barrier(c10d::Store &store, uint64_t number, int rank, int size,
		       std::chrono::milliseconds timeout, bool all);

} // namespace tutti_torch
