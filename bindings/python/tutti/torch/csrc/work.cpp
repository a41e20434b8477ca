// SPDX-License-Identifier: BSD-3-Clause
#include "work.h"

#include <thread>

#include "completions.h"
#include "errors.h"
#include "gil.h"

namespace tutti_torch
{

// The work for which this thread is in tutti_notify().
static thread_local TuttiWork *notifying;

TuttiWork::TuttiWork(std::shared_ptr<Comm> comm, int rank, c10d::OpType type, const char *title,
		     std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs,
		     uint64_t sequence, std::chrono::milliseconds timeout)
    : c10d::Work(rank, type, title,
		 title ? std::optional<std::vector<at::Tensor>>(inputs) : std::nullopt),
      comm_(std::move(comm)), inputs_(std::move(inputs)), outputs_(std::move(outputs)),
      sequence_(sequence), timeout_(timeout)
{
}

void TuttiWork::begin(tutti_request_t request)
{
	{
		std::lock_guard<std::mutex> driving(driving_);

		request_ = request;
		begun_ = true;
	}
	comm_->remember(c10::intrusive_ptr<TuttiWork>::reclaim_copy(this));
	if (has_future()) // of a group
		notify_future();
}

// Nobody else has the work yet.
void TuttiWork::end_at_once()
{
	for (const auto &step : after_)
		step();
	after_.clear();
	inputs_.clear();
	kept_.clear();
	completed_ = true;
	if (recordFunctionEndCallback_) {
		recordFunctionEndCallback_();
		recordFunctionEndCallback_ = nullptr;
	}
	done_.store(true, std::memory_order_release);
}

void TuttiWork::fail(std::exception_ptr error)
{
	std::unique_lock<std::mutex> driving(driving_);

	finish(std::move(error), driving);
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

void TuttiWork::when_done(std::function<void()> after)
{
	after_.push_back(std::move(after));
}

void TuttiWork::from(int peer)
{
	message_.peer = peer;
}

tutti_message_t *TuttiWork::message()
{
	return &message_;
}

// What the request, which has ended, comes to. Called in a Comm::Use.
std::exception_ptr TuttiWork::outcome(tutti_result_t result)
{
	request_ = nullptr;
	try {
		check(comm_->get(), result);
		for (const auto &step : after_)
			step();
		return nullptr;
	} catch (...) {
		return std::current_exception();
	}
}

// Give `driving` back and tell who waits: callbacks of the future may call anything.
void TuttiWork::finish(std::exception_ptr error, std::unique_lock<std::mutex> &driving)
{
	c10::intrusive_ptr<c10::ivalue::Future> future;
	std::function<void()> profiled;
	std::vector<at::Tensor> inputs, kept; // freed without the lock, as that may need the GIL
	std::vector<std::function<void()>> after;
	const auto self = c10::intrusive_ptr<TuttiWork>::reclaim_copy(this); // forget() drops one

	{
		std::lock_guard<std::mutex> lock(mutex_);

		completed_ = true;
		exception_ = std::move(error);
		future = future_;
		profiled.swap(recordFunctionEndCallback_);
	}
	inputs.swap(inputs_);
	kept.swap(kept_);
	after.swap(after_);
	done_.store(true, std::memory_order_release);
	driving.unlock();
	comm_->forget(this);
	if (profiled)
		profiled();
	if (future)
		complete(future);
}

void TuttiWork::complete(const c10::intrusive_ptr<c10::ivalue::Future> &future)
{
	if (exception_)
		future->setError(exception_);
	else
		future->markCompleted(at::IValue(outputs_));
}

void TuttiWork::finish_closed()
{
	std::unique_lock<std::mutex> driving(driving_);

	if (!done_.load(std::memory_order_acquire))
		finish(outcome(tutti_wait(&request_)), driving);
}

// Returns whether the work is done. `at_once`: ask only, and not at all if another thread drives it.
bool TuttiWork::drive(std::chrono::milliseconds timeout, bool at_once)
{
	if (done_.load(std::memory_order_acquire))
		return true;
	std::unique_lock<std::mutex> driving(driving_, std::defer_lock);
	std::exception_ptr error;
	size_t index;

	if (at_once && !driving.try_lock())
		return false;
	if (!at_once)
		driving.lock();
	if (done_.load(std::memory_order_acquire))
		return true;
	TORCH_CHECK(begun_ || at_once, "tutti: wait() for an operation of a group that is still "
				       "being collected; end the coalescing first");
	if (!begun_ || !comm_->enter()) // closing: finish_closed() comes
		return false;
	const double seconds = std::chrono::duration<double>(timeout).count();
	const tutti_result_t result = at_once ? tutti_test(&request_)
				      : timeout == kNoTimeout
					      ? tutti_wait(&request_)
					      : tutti_wait_any_for(&request_, 1, seconds, &index);

	if (result != TUTTI_IN_PROGRESS)
		error = outcome(result);
	comm_->leave();
	if (result != TUTTI_IN_PROGRESS) {
		finish(error, driving);
		return true;
	}
	driving.unlock();
	if (has_future()) // it may have been asked for while this thread drove
		notify_future();
	return false;
}

bool TuttiWork::isCompleted()
{
	return drive(kNoTimeout, true);
}

bool TuttiWork::wait(std::chrono::milliseconds timeout)
{
	if (!drive(timeout, false)) {
		while (timeout == kNoTimeout && !drive(timeout, false)) // closing: done soon
			std::this_thread::yield();
		if (timeout == kNoTimeout)
			return wait();
		C10_THROW_ERROR(DistBackendError,
				"Operation timed out! tutti: it is still pending after the " +
					std::to_string(timeout.count()) +
					" ms given to Work.wait()");
	}
	if (C10_UNLIKELY(exception_ != nullptr))
		std::rethrow_exception(exception_);
	return true;
}

// Results on a GPU have been copied when the request has ended.
void TuttiWork::synchronize()
{
	wait();
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

bool TuttiWork::has_future()
{
	std::lock_guard<std::mutex> lock(mutex_);

	return future_ != nullptr;
}

// Made when it is asked for: an operation that is waited for needs none.
c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture()
{
	c10::intrusive_ptr<c10::ivalue::Future> future;
	bool pending;

	{
		std::lock_guard<std::mutex> lock(mutex_);

		asked_by_python_ |= holds_gil();
		if (future_)
			return future_;
		future_ = c10::make_intrusive<c10::ivalue::Future>(
			c10::ListType::create(c10::TensorType::get()));
		future = future_;
		pending = !completed_;
	}
	if (pending)
		notify_future();
	else
		complete(future);
	return future;
}

// Have the future completed when the request ends. Not if another thread drives the request: it
// completes the future, or comes here when it gives up.
void TuttiWork::notify_future()
{
	std::unique_lock<std::mutex> driving(driving_, std::try_to_lock);

	if (!driving || notified_ || !begun_ || done_.load(std::memory_order_acquire))
		return;
	if (!comm_->enter()) // closing: finish_closed() comes
		return;
	notified_ = true;
	auto self = c10::intrusive_ptr<TuttiWork>::reclaim_copy(this);

	notifying = this;
	const bool taken = tutti_notify(request_, ended, self.get()) == TUTTI_OK;
	const bool at_once = notifying == nullptr; // ended() was called: it leaves the rest to us

	notifying = nullptr;
	if (taken)
		self.release(); // ended() takes it
	else
		run_soon([self] { self->drive(kNoTimeout, false); });
	driving.unlock();
	comm_->leave();
	if (at_once)
		drive(kNoTimeout, false);
}

// In the progress thread. What C++ puts on the future, as DDP does, is short; Python's callbacks may
// wait for other operations (completions.h).
void TuttiWork::ended(void *context)
{
	auto self = c10::intrusive_ptr<TuttiWork>::reclaim(static_cast<TuttiWork *>(context));
	bool soon;

	if (notifying == self.get()) { // within tutti_notify(), whose caller holds the lock
		notifying = nullptr;
		return;
	}
	{
		std::lock_guard<std::mutex> lock(self->mutex_);

		soon = self->asked_by_python_;
	}
	if (soon)
		run_soon([self = std::move(self)] { self->drive(kNoTimeout, false); });
	else
		self->drive(kNoTimeout, false);
}

} // namespace tutti_torch
