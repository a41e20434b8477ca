// SPDX-License-Identifier: BSD-3-Clause
// An operation on the host's memory, with its request. One thread at a time drives the request;
// wait() does so itself, without another thread.
#pragma once

#include <atomic>
#include <mutex>

#include "work.h"

namespace tutti_torch
{

class HostWork : public TuttiWork
{
      public:
	using TuttiWork::TuttiWork;

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
	void synchronize() override;
	Future getFuture() override;

	void run(tutti_comm_t comm, const Start &start, bool blocking) override;
	void fail(std::exception_ptr error) override;
	std::optional<c10::Stream> stream() const override
	{
		return std::nullopt;
	}

      private:
	friend class Comm;

	void begin(tutti_request_t request);
	void end_at_once();   // a blocking call has returned TUTTI_OK
	void finish_closed(); // Comm::close(): the communicator is revoked, and no call is on it
	bool drive(std::chrono::milliseconds timeout, bool at_once);
	std::exception_ptr outcome(tutti_result_t result);
	void finish(std::exception_ptr error, std::unique_lock<std::timed_mutex> &driving);
	void complete(const Future &future);
	bool has_future();
	void notify_future();
	static void ended(void *context);

	std::timed_mutex driving_; // held by who drives the request, and guards it
	tutti_request_t request_ = nullptr;
	bool begun_ = false;
	bool notified_ = false;		  // tutti_notify() was called
	std::atomic<bool> done_{ false }; // release: what finish() wrote is there
	bool asked_by_python_ = false;	  // for the future; guarded likewise
	size_t index_ = SIZE_MAX;	  // in the list of Comm, guarded by its lock
};

} // namespace tutti_torch
