// SPDX-License-Identifier: BSD-3-Clause
// A barrier that names the ranks that did not come, and leaves the group usable. The ranks meet in
// PyTorch's store: a missed deadline of the communicator would end it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store.h"

namespace tutti_torch
{

// Rank 0 waits for an arrival of each rank and answers it. A rank that came too late is answered by
// the next barrier of rank 0, as if it had sent a message.
class MonitoredBarrier
{
      public:
	MonitoredBarrier(StorePtr store, int rank, int size);

	// `all`: name all that are missing, not only the first. Throws where not all come.
	void wait(Milliseconds timeout, bool all);

      private:
	void lead(Milliseconds timeout, bool all);
	void follow(Milliseconds timeout);
	void answer(const std::vector<int> &came, const std::string &text);

	StorePtr store_;
	const int rank_;
	std::vector<uint64_t> arrivals_; // of each rank that were answered; of this rank: its own
};

} // namespace tutti_torch
