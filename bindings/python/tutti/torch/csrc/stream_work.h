// SPDX-License-Identifier: BSD-3-Clause
// An operation on a stream of a GPU. The host is done with it when it is on its stream; wait() has
// the current stream wait for it, as in NCCL's backend. A fault that occurs while it runs is told by
// the next call, by wait() and by isCompleted(), once the library knows.
#pragma once

#include <c10/core/Event.h>

#include "work.h"

namespace tutti_torch
{

class StreamWork : public TuttiWork
{
      public:
	StreamWork(Described &&described, c10::Stream stream);

	bool isCompleted() override;
	// With a time the host waits, and the operation stays pending when the time is over.
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
	void synchronize() override;
	std::vector<at::Tensor> result() override;
	Future getFuture() override;

	// The current stream is to be that of the work.
	void run(tutti_comm_t comm, const Start &start, bool blocking) override;
	void fail(std::exception_ptr error) override;
	std::optional<c10::Stream> stream() const override
	{
		return stream_;
	}

      private:
	bool failed();
	void check_fault();
	void wait_on_host(std::chrono::milliseconds timeout);
	void complete(const Future &future);

	const c10::Stream stream_;
	c10::Event ended_;   // on the stream, behind the operation
	bool begun_ = false; // guarded by mutex_ of the base
};

} // namespace tutti_torch
