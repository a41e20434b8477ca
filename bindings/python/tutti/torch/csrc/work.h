// SPDX-License-Identifier: BSD-3-Clause
// An operation: the tensors that belong to tutti until it has ended, and what is to be done then. How
// it runs, and what waiting for it means, is up to the two kinds: host_work.h, stream_work.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "comm.h"
#include "place.h"

namespace tutti_torch
{

// What all works are made with.
struct Described {
	std::shared_ptr<Comm> comm;
	int rank;
	c10d::OpType type;
	const char *title; // for a profiler; nullptr: none asks
	std::vector<at::Tensor> inputs, outputs;
	uint64_t sequence;
	std::chrono::milliseconds timeout;
};

class TuttiWork : public c10d::Work
{
      public:
	using Future = c10::intrusive_ptr<c10::ivalue::Future>;
	// The calls of the library that are the operation.
	using Start = std::function<tutti_result_t(const Place &)>;

	explicit TuttiWork(Described &&described);

	void abort() override;
	int sourceRank() const override;
	std::vector<at::Tensor> result() override;
	uint64_t getSequencenumber() const override;
	std::chrono::milliseconds getTimeout() const; // new in 2.14: versions.h

	// The backend's part, in a Comm::Use: start the operation, once; throws where that fails.
	// `blocking`: return when it has ended, as far as the host has to wait for that.
	virtual void run(tutti_comm_t comm, const Start &start, bool blocking) = 0;
	// It cannot be started, which others are to learn who have it.
	virtual void fail(std::exception_ptr error) = 0;
	// Of what a GPU does: the stream on which that is.
	virtual std::optional<c10::Stream> stream() const = 0;

	void keep(const at::Tensor &tensor);
	void add_tensors(const std::vector<at::Tensor> &inputs,
			 const std::vector<at::Tensor> &outputs); // of a group
	// What result() is, where it is not what the library writes.
	void set_result(const std::vector<at::Tensor> &tensors);
	// `after` copies results to where they belong.
	void when_done(std::function<void()> after);

	// Whom a message is to come from, and where tutti writes whom it came from.
	void from(int peer);
	tutti_message_t *message();

      protected:
	static void check_begun(bool begun);
	[[noreturn]] static void throw_still_pending(std::chrono::milliseconds timeout);
	void take_results(); // do what is to be done when the operation has ended
	void end_record();   // of a profiler, if there is one

	std::shared_ptr<Comm> comm_;
	std::vector<at::Tensor> inputs_, outputs_, kept_;
	std::vector<std::function<void()>> after_;
	Future future_; // made when it is asked for; guarded by mutex_ of the base

      private:
	tutti_message_t message_{ sizeof(tutti_message_t), -1, 0 };
	uint64_t sequence_;
	std::chrono::milliseconds timeout_;
};

} // namespace tutti_torch
