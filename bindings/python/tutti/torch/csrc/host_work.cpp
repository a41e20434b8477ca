// SPDX-License-Identifier: BSD-3-Clause
#include "host_work.h"

#include <algorithm>
#include <thread>

#include "completions.h"
#include "errors.h"
#include "gil.h"

namespace tutti_torch
{

// That of the library, and so that times do not overflow.
constexpr std::chrono::milliseconds LONGEST_WAIT(std::chrono::seconds(1000000000));

// The work for which this thread is in tutti_notify().
static thread_local HostWork *notifying;

void HostWork::run(tutti_comm_t comm, const Start &start, bool blocking)
{
	tutti_request_t request = nullptr;

	check(comm, start(Place{ comm, blocking ? nullptr : &request, std::nullopt }));
	if (blocking)
		end_at_once();
	else
		begin(request);
}

void HostWork::begin(tutti_request_t request)
{
	{
		std::lock_guard<std::timed_mutex> driving(driving_);

		request_ = request;
		begun_ = true;
	}
	comm_->remember(c10::intrusive_ptr<HostWork>::reclaim_copy(this));
	if (has_future()) // of a group
		notify_future();
}

// Nobody else has the work yet.
void HostWork::end_at_once()
{
	take_results();
	after_.clear();
	inputs_.clear();
	kept_.clear();
	completed_ = true;
	end_record();
	done_.store(true, std::memory_order_release);
}

void HostWork::fail(std::exception_ptr error)
{
	std::unique_lock<std::timed_mutex> driving(driving_);

	finish(std::move(error), driving);
}

// What the request, which has ended, comes to. Called in a Comm::Use.
std::exception_ptr HostWork::outcome(tutti_result_t result)
{
	request_ = nullptr;
	try {
		check(comm_->get(), result);
		take_results();
		return nullptr;
	} catch (...) {
		return std::current_exception();
	}
}

// Give `driving` back and tell who waits: callbacks of the future may call anything.
void HostWork::finish(std::exception_ptr error, std::unique_lock<std::timed_mutex> &driving)
{
	Future future;
	std::function<void()> profiled;
	std::vector<at::Tensor> inputs, kept; // freed without the lock, as that may need the GIL
	std::vector<std::function<void()>> after;
	const auto self = c10::intrusive_ptr<HostWork>::reclaim_copy(this); // forget() drops one

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

void HostWork::complete(const Future &future)
{
	if (exception_)
		future->setError(exception_);
	else
		future->markCompleted(at::IValue(outputs_));
}

void HostWork::finish_closed()
{
	std::unique_lock<std::timed_mutex> driving(driving_);

	if (!done_.load(std::memory_order_acquire))
		finish(outcome(tutti_wait(&request_)), driving);
}

// Returns whether the work is done. `at_once`: ask only, and not at all if another thread drives it.
bool HostWork::drive(std::chrono::milliseconds timeout, bool at_once)
{
	if (done_.load(std::memory_order_acquire))
		return true;
	std::unique_lock<std::timed_mutex> driving(driving_, std::defer_lock);
	const auto end = std::chrono::steady_clock::now() + std::min(timeout, LONGEST_WAIT);
	std::exception_ptr error;
	size_t index;

	if (at_once && !driving.try_lock())
		return false;
	if (!at_once && timeout == kNoTimeout)
		driving.lock();
	else if (!at_once && !driving.try_lock_until(end)) // another thread waits
		return done_.load(std::memory_order_acquire);
	if (done_.load(std::memory_order_acquire))
		return true;
	check_begun(begun_ || at_once);
	if (!begun_ || !comm_->enter()) // closing: finish_closed() comes
		return false;
	const double seconds = std::max(
		0.0, std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count());
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

bool HostWork::isCompleted()
{
	return drive(kNoTimeout, true);
}

bool HostWork::wait(std::chrono::milliseconds timeout)
{
	if (!drive(timeout, false)) {
		while (timeout == kNoTimeout && !drive(timeout, false)) // closing: done soon
			std::this_thread::yield();
		if (timeout == kNoTimeout)
			return wait();
		throw_still_pending(timeout);
	}
	if (C10_UNLIKELY(exception_ != nullptr))
		std::rethrow_exception(exception_);
	return true;
}

void HostWork::synchronize()
{
	wait();
}

bool HostWork::has_future()
{
	std::lock_guard<std::mutex> lock(mutex_);

	return future_ != nullptr;
}

// Made when it is asked for: an operation that is waited for needs none.
HostWork::Future HostWork::getFuture()
{
	Future future;
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
void HostWork::notify_future()
{
	std::unique_lock<std::timed_mutex> driving(driving_, std::try_to_lock);

	if (!driving || notified_ || !begun_ || done_.load(std::memory_order_acquire))
		return;
	if (!comm_->enter()) // closing: finish_closed() comes
		return;
	notified_ = true;
	auto self = c10::intrusive_ptr<HostWork>::reclaim_copy(this);

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
void HostWork::ended(void *context)
{
	auto self = c10::intrusive_ptr<HostWork>::reclaim(static_cast<HostWork *>(context));
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
