// SPDX-License-Identifier: BSD-3-Clause
// An operation: the request, the tensors that belong to tutti until it has ended, and what is to be
// done then. One thread at a time drives the request; wait() does so itself, without another thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm.h"

namespace tutti_torch
{

class TuttiWork : public c10d::Work
{
      public:
	TuttiWork(std::shared_ptr<Comm> comm, int rank, c10d::OpType type, const char *title,
		  std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs,
		  uint64_t sequence, std::chrono::milliseconds timeout);

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
	void synchronize() override;
	void abort() override;
	int sourceRank() const override;
	std::vector<at::Tensor> result() override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
	uint64_t getSequencenumber() const override;
	std::chrono::milliseconds getTimeout() const override;

	// The backend's part. After begin() the work is pending until `request` has ended; `after`
	// (may be empty) then copies results to where they belong.
	void begin(tutti_request_t request);
	void end_at_once(); // a blocking call has returned TUTTI_OK
	void fail(std::exception_ptr error);
	void keep(const at::Tensor &tensor);
	void add_tensors(const std::vector<at::Tensor> &inputs,
			 const std::vector<at::Tensor> &outputs); // of a group
	void when_done(std::function<void()> after);

	// Whom a message is to come from, and where tutti writes whom it came from.
	void from(int peer);
	tutti_message_t *message();

      private:
	friend class Comm;

	void finish_closed(); // Comm::close(): the communicator is revoked, and no call is on it
	bool drive(std::chrono::milliseconds timeout, bool at_once);
	std::exception_ptr outcome(tutti_result_t result);
	void finish(std::exception_ptr error, std::unique_lock<std::mutex> &driving);
	void complete(const c10::intrusive_ptr<c10::ivalue::Future> &future);
	bool has_future();
	void notify_future();
	static void ended(void *context);

	std::shared_ptr<Comm> comm_;
	std::mutex driving_; // held by who drives the request, and guards it
	tutti_request_t request_ = nullptr;
	bool begun_ = false;
	bool notified_ = false;		  // tutti_notify() was called
	std::atomic<bool> done_{ false }; // release: what finish_with() wrote is there
	std::vector<at::Tensor> inputs_, outputs_, kept_;
	std::vector<std::function<void()>> after_;
	c10::intrusive_ptr<c10::ivalue::Future> future_; // guarded by mutex_ of the base
	bool asked_by_python_ = false;			 // for the future; guarded likewise
	tutti_message_t message_{ sizeof(tutti_message_t), -1, 0 };
	uint64_t sequence_;
	std::chrono::milliseconds timeout_;
	size_t index_ = SIZE_MAX; // in the list of Comm, guarded by its lock
};

} // namespace tutti_torch
