// SPDX-License-Identifier: BSD-3-Clause
// One operation from its arguments to its Work: the checks that all operations share, buffers in the
// form that tutti takes, and the start: blocking, with a request, on a stream, or as a part of a group.
#pragma once

#include <c10/core/StreamGuard.h>

#include "backend.h"
#include "types.h"

namespace tutti_torch
{

// Memory of tensors in their logical order without gaps.
struct Buffer {
	void *data;
	size_t count;
	tutti_dtype_t dtype;
	size_t each; // elements of `dtype` for one of the tensor
};

class TuttiBackend::Call
{
      public:
	// `async`: with a request; else work() blocks. Outputs may be the inputs. On a GPU nothing
	// blocks: what is not asynchronous is on the current stream, the rest on one of the backend's.
	// Operations on streams have no tags, and so messages with one other than 0 go through the
	// host, also those of GPUs.
	Call(TuttiBackend &backend, c10d::OpType type, const char *title, Tensors inputs,
	     Tensors outputs, std::chrono::milliseconds timeout, bool async, int tag = 0);

	// A tensor's own memory, or that of a copy; copies of outputs are copied back at the end.
	Buffer input(const at::Tensor &tensor);
	Buffer output(const at::Tensor &tensor);
	Buffer inout(const at::Tensor &tensor);
	// The same for tensors of one type, one after another.
	Buffer inputs(const Tensors &tensors);
	Buffer outputs(const Tensors &tensors);

	// What is to be called: once, or several times, which then makes a group.
	void add(Start start);
	// Start it: the Work, which is finished if the call blocked.
	WorkPtr work();

	TuttiWork &state()
	{
		return *work_;
	}
	tutti_message_t *message()
	{
		return work_->message();
	}

	static c10::intrusive_ptr<TuttiWork> make_work(TuttiBackend &backend, c10d::OpType type,
						       const char *title, Tensors inputs,
						       Tensors outputs,
						       std::chrono::milliseconds timeout,
						       std::optional<c10::Stream> stream);

      private:
	void prepare(const char *title, Tensors inputs, Tensors outputs, c10d::OpType type,
		     int tag);
	c10::Stream choose_stream(const Tensors &inputs, const Tensors &outputs, c10d::OpType type,
				  c10::Device device);
	Buffer buffer(const at::Tensor &tensor);
	at::Tensor copy_of(const at::Tensor &tensor);
	void copy_back(std::function<void()> copy);

	TuttiBackend &backend_;
	Comm::Use use_;
	const bool member_; // of a group that is being collected: work() starts nothing
	const bool blocking_;
	std::optional<c10::Stream> through_host_; // the current one of a GPU's message with a tag
	// Copies for this operation are made where it runs.
	c10::OptionalStreamGuard guard_;
	std::chrono::milliseconds timeout_;
	Start first_;		    // most operations are one call
	std::vector<Start> others_; // and what follows it
	c10::intrusive_ptr<TuttiWork> work_;
};

} // namespace tutti_torch
