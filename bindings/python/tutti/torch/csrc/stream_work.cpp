// SPDX-License-Identifier: BSD-3-Clause
#include "stream_work.h"

#include <thread>

#include <c10/core/StreamGuard.h>

#include "errors.h"
#include "streams.h"
#include "versions.h"

namespace tutti_torch
{

StreamWork::StreamWork(Described &&described, c10::Stream stream)
    : TuttiWork(std::move(described)), stream_(stream), ended_(stream.device_type())
{
}

// What follows on the stream comes after the operation, and so memory that only this work holds may
// be given back to PyTorch at once.
void StreamWork::run(tutti_comm_t comm, const Start &start, bool)
{
	const tutti_cuda_stream_t handle = static_cast<tutti_cuda_stream_t>(native_handle(stream_));

	check(comm, start(Place{ comm, nullptr, handle }));
	take_results();
	after_.clear();
	if (!outputs_.empty())
		inputs_.clear();
	kept_.clear();
	ended_.record(stream_);
	end_record();
	Future future;

	{
		std::lock_guard<std::mutex> lock(mutex_);

		begun_ = true;
		future = future_; // of a group
	}
	if (future)
		complete(future);
}

// Has the group failed? What its operations on streams have written is undefined then.
bool StreamWork::failed()
{
	const std::exception_ptr fault = comm_->fault();
	std::lock_guard<std::mutex> lock(mutex_);

	if (!completed_ && C10_UNLIKELY(fault != nullptr)) {
		completed_ = true;
		exception_ = fault;
	}
	return exception_ != nullptr;
}

void StreamWork::check_fault()
{
	if (C10_UNLIKELY(failed()))
		std::rethrow_exception(exception());
}

// The fault is looked for last: streams that one lets go on come to their end, too.
bool StreamWork::isCompleted()
{
	bool ended;

	{
		std::lock_guard<std::mutex> lock(mutex_);

		ended = begun_ && ended_.query();
	}
	if (failed())
		return true;
	std::lock_guard<std::mutex> lock(mutex_);

	completed_ = completed_ || ended;
	return completed_;
}

void StreamWork::wait_on_host(std::chrono::milliseconds timeout)
{
	const auto end = std::chrono::steady_clock::now() + timeout;

	while (!isCompleted()) {
		if (std::chrono::steady_clock::now() >= end)
			throw_still_pending(timeout);
		std::this_thread::yield();
	}
	check_fault();
}

bool StreamWork::wait(std::chrono::milliseconds timeout)
{
	check_fault();
	if (timeout != kNoTimeout)
		wait_on_host(timeout);
	synchronize();
	return true;
}

void StreamWork::synchronize()
{
	{
		std::lock_guard<std::mutex> lock(mutex_);

		if (exception_) // it did not begin
			std::rethrow_exception(exception_);
		check_begun(begun_);
	}
	ended_.block(current_stream(stream_.device()));
}

std::vector<at::Tensor> StreamWork::result()
{
	return outputs_; // in the order of the stream
}

StreamWork::Future StreamWork::getFuture()
{
	std::unique_lock<std::mutex> lock(mutex_);
	const bool first = !future_;

	if (first)
		future_ = c10::make_intrusive<c10::ivalue::Future>(
			c10::ListType::create(c10::TensorType::get()),
			std::vector<c10::Device>{ stream_.device() });
	const auto future = future_;
	const bool begun = begun_;

	lock.unlock();
	if (first && begun)
		complete(future);
	return future;
}

void StreamWork::fail(std::exception_ptr error)
{
	Future future;

	{
		std::lock_guard<std::mutex> lock(mutex_);

		completed_ = true;
		exception_ = error;
		future = future_;
	}
	if (future)
		future->setError(std::move(error));
}

// For the host it is complete. It notes the current stream, for which its users' streams then wait:
// also where there is no output, as the stream still reads the input.
void StreamWork::complete(const Future &future)
{
	const c10::StreamGuard guard(stream_);
	std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> used;

	for (const auto &tensor : outputs_.empty() ? inputs_ : outputs_)
		used.push_back(tensor.storage().getWeakStorageImpl());
	future->markCompleted(at::IValue(outputs_), std::move(used));
}

} // namespace tutti_torch
