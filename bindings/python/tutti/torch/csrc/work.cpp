// SPDX-License-Identifier: BSD-3-Clause
#include "work.h"

namespace tutti_torch
{

TuttiWork::TuttiWork(Described &&described)
    : c10d::Work(described.rank, described.type, described.title,
		 described.title ? std::optional<std::vector<at::Tensor>>(described.inputs)
				 : std::nullopt),
      comm_(std::move(described.comm)), inputs_(std::move(described.inputs)),
      outputs_(std::move(described.outputs)), sequence_(described.sequence),
      timeout_(described.timeout)
{
}

void TuttiWork::keep(const at::Tensor &tensor)
{
	kept_.push_back(tensor);
}

void TuttiWork::add_tensors(const std::vector<at::Tensor> &inputs,
			    const std::vector<at::Tensor> &outputs)
{
	inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
	outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
}

void TuttiWork::set_result(const std::vector<at::Tensor> &tensors)
{
	outputs_ = tensors;
}

void TuttiWork::when_done(std::function<void()> after)
{
	after_.push_back(std::move(after));
}

void TuttiWork::check_begun(bool begun)
{
	TORCH_CHECK(begun, "tutti: wait() for an operation of a group that is still being "
			   "collected; end the coalescing first");
}

void TuttiWork::throw_still_pending(std::chrono::milliseconds timeout)
{
	C10_THROW_ERROR(DistBackendError,
			"Operation timed out! tutti: it is still pending after the " +
				std::to_string(timeout.count()) + " ms given to Work.wait()");
}

void TuttiWork::take_results()
{
	for (const auto &step : after_)
		step();
}

void TuttiWork::end_record()
{
	if (!recordFunctionEndCallback_)
		return;
	recordFunctionEndCallback_();
	recordFunctionEndCallback_ = nullptr;
}

void TuttiWork::from(int peer)
{
	message_.peer = peer;
}

tutti_message_t *TuttiWork::message()
{
	return &message_;
}

void TuttiWork::abort()
{
	comm_->abort("Work.abort() was called");
}

int TuttiWork::sourceRank() const
{
	TORCH_CHECK(opType_ == c10d::OpType::RECVANYSOURCE || opType_ == c10d::OpType::RECV,
		    "sourceRank() is of a receive");
	return message_.peer;
}

std::vector<at::Tensor> TuttiWork::result()
{
	TORCH_CHECK(isCompleted(),
		    "Work needs to be completed before calling result(). Should call "
		    "wait() before result().");
	return outputs_;
}

uint64_t TuttiWork::getSequencenumber() const
{
	return sequence_;
}

std::chrono::milliseconds TuttiWork::getTimeout() const
{
	return timeout_;
}

} // namespace tutti_torch
