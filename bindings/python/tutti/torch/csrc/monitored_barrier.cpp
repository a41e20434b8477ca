// SPDX-License-Identifier: BSD-3-Clause
#include "monitored_barrier.h"

#include <string>
#include <vector>

#include <c10/util/Exception.h>

namespace tutti_torch
{

namespace
{

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

bool wait_for(c10d::Store &store, const std::string &key, milliseconds timeout)
{
	try {
		store.wait({ key }, std::max(timeout, milliseconds(1)));
		return true;
	} catch (const c10::DistStoreError &) {
		return false;
	}
}

// As Gloo words it.
std::string missing_text(const std::vector<int> &missing, milliseconds timeout)
{
	std::string ranks;

	for (const int rank : missing)
		ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
	return "Rank(s) " + ranks + " failed to pass monitoredBarrier in " +
	       std::to_string(timeout.count()) + " ms";
}

std::string collect(c10d::Store &store, const std::string &prefix, int size, milliseconds timeout,
		    bool all)
{
	const auto end = Clock::now() + timeout;
	std::vector<int> missing;

	for (int rank = 1; rank < size; rank++) {
		const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());

		if (wait_for(store, prefix + std::to_string(rank), left))
			continue;
		missing.push_back(rank);
		if (!all)
			break;
	}
	return missing.empty() ? "" : missing_text(missing, timeout);
}

} // namespace

void monitored_barrier(c10d::Store &store, uint64_t number, int rank, int size,
		       milliseconds timeout, bool all)
{
	const std::string prefix = "tutti/monitored/" + std::to_string(number) + "/";
	const std::string outcome = prefix + "outcome";
	std::string found;

	if (rank == 0) {
		found = collect(store, prefix, size, timeout, all);
		store.set(outcome, "=" + found); // never empty
	} else {
		store.set(prefix + std::to_string(rank), "here");
		// rank 0 may have come later, and waits as long
		if (!wait_for(store, outcome, timeout * 2))
			found = missing_text({ 0 }, timeout * 2);
		else
			found = store.get_to_str(outcome).substr(1);
	}
	TORCH_CHECK(found.empty(), "[Rank ", rank, "]: ", found);
}

} // namespace tutti_torch
