// SPDX-License-Identifier: BSD-3-Clause
#include "completions.h"

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

		jobs_.push_back(std::move(job));
		if (idle_ < jobs_.size())
			start();
		lock.unlock();
		wake_.notify_one();
	}

      private:
	// Detached: a callback may block for ever, which must not keep the process from ending.
	void start()
	{
		std::thread([this] { serve(); }).detach();
		idle_++;
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
		}
	}

	std::mutex mutex_;
	std::condition_variable wake_;
	std::deque<std::function<void()>> jobs_;
	size_t idle_ = 0; // threads that wait, or are about to
};

Completions *completions;
pid_t owner;

} // namespace

void run_soon(std::function<void()> job)
{
	static std::mutex mutex;
	std::lock_guard<std::mutex> lock(mutex);

	if (owner !=
	    getpid()) { // the first job, or a child of fork(), which has none of the threads
		completions = new Completions;
		owner = getpid();
	}
	completions->add(std::move(job));
}

} // namespace tutti_torch
