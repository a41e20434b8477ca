// SPDX-License-Identifier: BSD-3-Clause
// A barrier that names the ranks that did not come, and leaves the group usable. The ranks meet in
// PyTorch's store: a missed deadline of the communicator would end it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tutti_torch
{

// Rank 0 waits for an arrival of each rank and answers it. A rank that came too late is answered by
// the next barrier of rank 0, as if it had sent a message.
class MonitoredBarrier
{
      public:
	MonitoredBarrier(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

	// `all`: name all that are missing, not only the first. Throws where not all come.
	void wait(std::chrono::milliseconds timeout, bool all);

      private:
	void lead(std::chrono::milliseconds timeout, bool all);
	void follow(std::chrono::milliseconds timeout);
	void answer(const std::vector<int> &came, const std::string &text);

	c10::intrusive_ptr<c10d::Store> store_;
	const int rank_;
	std::vector<uint64_t> arrivals_; // of each rank that were answered; of this rank: its own
};

} // namespace tutti_torch
