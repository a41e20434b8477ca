// SPDX-License-Identifier: BSD-3-Clause
#include "completions.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace tutti_torch
{

namespace
{

class Completions
{
      public:
	void add(std::function<void()> job)
	{
		std::unique_lock<std::mutex> lock(mutex_);

		if (ended_)
			return;
		jobs_.push_back(std::move(job));
		if (idle_ < jobs_.size())
			start();
		lock.unlock();
		wake_.notify_one();
	}

	void finish()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		done_.wait_for(lock, std::chrono::seconds(10),
			       [this] { return jobs_.empty() && idle_ == threads_; });
		ended_ = true;
		jobs_.clear();
	}

      private:
	// Detached: a callback may block for ever, which must not keep the process from ending.
	void start()
	{
		std::thread([this] { serve(); }).detach();
		idle_++;
		threads_++;
	}

	void serve()
	{
		pthread_setname_np(pthread_self(), "tutti-futures");
		for (std::unique_lock<std::mutex> lock(mutex_);;) {
			wake_.wait(lock, [this] { return !jobs_.empty(); });
			auto job = std::move(jobs_.front());

			jobs_.pop_front();
			idle_--;
			lock.unlock();
			job();
			job = nullptr; // what it holds may take locks when freed
			lock.lock();
			idle_++;
			done_.notify_all();
		}
	}

	std::mutex mutex_;
	std::condition_variable wake_, done_;
	std::deque<std::function<void()>> jobs_;
	size_t threads_ = 0;
	bool ended_ = false;
	size_t idle_ = 0; // threads that wait, or are about to
};

Completions *completions;
pid_t owner;
std::mutex making;

// Those of the parent have no threads in a child of fork().
Completions *of_this_process()
{
	std::lock_guard<std::mutex> lock(making);

	if (owner != getpid()) {
		completions = new Completions;
		owner = getpid();
	}
	return completions;
}

} // namespace

void run_soon(std::function<void()> job)
{
	of_this_process()->add(std::move(job));
}

void finish_soon()
{
	of_this_process()->finish();
}

} // namespace tutti_torch
