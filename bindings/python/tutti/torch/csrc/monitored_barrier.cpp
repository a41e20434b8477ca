// SPDX-License-Identifier: BSD-3-Clause
#include "monitored_barrier.h"

#include <c10/util/Exception.h>

namespace tutti_torch
{

namespace
{

std::string key_of(int rank, uint64_t number, const char *what)
{
	return "tutti/monitored/" + std::to_string(rank) + "/" + std::to_string(number) + "/" +
	       what;
}

std::string list(const std::vector<int> &ranks)
{
	std::string text = ranks.size() > 1 ? "Ranks " : "Rank ";

	for (size_t i = 0; i < ranks.size(); i++)
		text += (i ? ", " : "") + std::to_string(ranks[i]);
	return text;
}

} // namespace

MonitoredBarrier::MonitoredBarrier(StorePtr store, int rank, int size)
    : store_(std::move(store)), rank_(rank), arrivals_(size)
{
}

void MonitoredBarrier::wait(Milliseconds timeout, bool all)
{
	if (rank_ == 0)
		lead(timeout, all);
	else
		follow(timeout);
}

// The error messages begin as Gloo's do.
void MonitoredBarrier::lead(Milliseconds timeout, bool all)
{
	const auto end = Clock::now() + timeout;
	const std::string after = " in " + std::to_string(timeout.count()) + " ms";
	std::vector<int> came, missing;
	std::string text;

	for (int rank = 1; rank < int(arrivals_.size()); rank++) {
		const std::string key = key_of(rank, arrivals_[rank], "here");
		const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
		const bool ended = !text.empty() || (!missing.empty() && !all);

		if (ended ? store_->check({ key }) : wait_for(*store_, key, left))
			came.push_back(rank); // and is answered, also after the end
		else if (!ended && left <= Milliseconds(0) && missing.empty())
			text = "Rank 0 timed out in monitoredBarrier" + after +
			       ", waiting for rank " + std::to_string(rank);
		else if (!ended)
			missing.push_back(rank);
	}
	if (!missing.empty())
		text = list(missing) + " failed to pass monitoredBarrier" + after;
	answer(came, text);
	TORCH_CHECK(text.empty(), "[Rank 0]: ", text);
}

void MonitoredBarrier::answer(const std::vector<int> &came, const std::string &text)
{
	for (const int rank : came) {
		store_->deleteKey(key_of(rank, arrivals_[rank], "here"));
		store_->set(key_of(rank, arrivals_[rank]++, "answer"), with_sign(text));
	}
}

void MonitoredBarrier::follow(Milliseconds timeout)
{
	const std::string answer = key_of(rank_, arrivals_[rank_], "answer");
	std::string text;

	store_->set(key_of(rank_, arrivals_[rank_], "here"), "here");
	// rank 0 may have come later, and waits as long
	TORCH_CHECK(wait_for(*store_, answer, timeout * 2), "[Rank ", rank_, "]: Rank ", rank_,
		    " successfully reached monitoredBarrier, but received errors while waiting for "
		    "send/recv from rank 0, which did not answer in ",
		    timeout.count() * 2, " ms");
	text = get_signed(*store_, answer);
	store_->deleteKey(answer);
	arrivals_[rank_]++;
	TORCH_CHECK(text.empty(), "[Rank ", rank_, "]: Rank ", rank_,
		    " successfully reached monitoredBarrier, but received errors while waiting for "
		    "send/recv from rank 0, which says: ",
		    text);
}

} // namespace tutti_torch
