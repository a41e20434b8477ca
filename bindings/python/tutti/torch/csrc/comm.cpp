// SPDX-License-Identifier: BSD-3-Clause
#include "comm.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <tutti/cuda.h>

#include "errors.h"
#include "gil.h"
#include "options.h"
#include "host_work.h"

namespace tutti_torch
{

namespace
{

bool environment_has_key()
{
	for (const char *name : { "TUTTI_KEY", "TUTTI_KEY_FILE" })
		if (const char *value = getenv(name); value && *value)
			return true;
	return false;
}

std::string make_key()
{
	char key[TUTTI_KEY_LENGTH + 1];

	check(nullptr, tutti_key_make(key));
	return key;
}

// Ranks on several hosts need a key. Unless the user has given one, rank 0 makes it, and PyTorch's
// store hands it on, which then is what protects it. It stays there for all groups (torchrun's agent
// keeps the store over restarts). Where a group before had a key of the user's, a rank may still read
// that there is none, and says so.
std::string share_key(c10d::Store &store, int rank, int size, bool given, Milliseconds timeout)
{
	const char *const name = "tutti/key";
	const auto has_come = [&] {
		handle_signals();
		return store.check({ name });
	};

	if (rank == 0 && (!has_come() || (!given && get_signed(store, name).empty())))
		store.set(name, with_sign(given ? "" : make_key()));
	if (given)
		return "";
	if (!poll(has_come, timeout)) // in the library's words
		throw_failure(TUTTI_ERR_TIMEOUT,
			      "tutti: Timed out : rank 0 has not come to the rendezvous of " +
				      std::to_string(size) + " ranks by rank " +
				      std::to_string(rank) +
				      "'s deadline: was every rank started, with the same store?");
	return get_signed(store, name);
}

const char *or_null(const std::string &text)
{
	return text.empty() ? nullptr : text.c_str();
}

} // namespace

Comm::Comm(const StorePtr &store, int rank, int size, const TuttiOptions &options,
	   Milliseconds timeout)
{
	std::string key = options.key;
	tutti_config_t config = TUTTI_CONFIG_INIT;

	if (size > 1) {
		const bool given = !key.empty() || environment_has_key();
		const auto shared = share_key(*store, rank, size, given, timeout);

		if (!given)
			key = shared;
	}
	config.timeout_s = std::chrono::duration<double>(timeout).count();
	config.transports = or_null(options.transports);
	config.algorithm = or_null(options.algorithm);
	config.host_id = or_null(options.host_id);
	config.key = or_null(key);
	config.reproducible = options.reproducible;
	config.encrypt = options.encrypt;
	if (!options.wire.empty())
		check(nullptr, tutti_wire_parse(options.wire.c_str(), &config.wire));
	const LibraryStore meeting(store);
	tutti_result_t result = tutti_comm_create(meeting.get(), rank, size, &config, &comm_);
	uint64_t name = uint64_t(std::random_device()()) << 32 | std::random_device()();

	if (result == TUTTI_OK)
		result =
			tutti_broadcast(comm_, &name, &name, sizeof(name), TUTTI_UINT8, 0, nullptr);
	if (result == TUTTI_OK) {
		store_ = c10::make_intrusive<c10d::PrefixStore>("tutti/" + std::to_string(name),
								store);
		return;
	}
	const std::string text = failure_text(comm_, result);

	tutti_comm_destroy(comm_);
	meeting.rethrow(text);
	throw_failure(result, text);
}

Comm::~Comm()
{
	close();
}

void Comm::Use::throw_closed()
{
	C10_THROW_ERROR(DistBackendError, "tutti: the process group was destroyed; make another by "
					  "init_process_group() or new_group()");
}

bool Comm::enter()
{
	users_.fetch_add(1); // sequentially consistent, as closed_ below: close() does the reverse
	if (C10_LIKELY(!closed_.load()))
		return true;
	leave();
	return false;
}

void Comm::leave()
{
	if (C10_UNLIKELY(users_.fetch_sub(1) == 1 && closed_.load()))
		users_.notify_all();
}

void Comm::abort(const std::string &reason)
{
	if (!enter())
		return;
	tutti_comm_abort(comm_, reason.c_str());
	leave();
}

tutti_result_t Comm::error(int *rank)
{
	if (!enter()) {
		*rank = -1;
		return TUTTI_ERR_ABORTED;
	}
	const tutti_result_t result = tutti_comm_error(comm_, rank);

	leave();
	return result;
}

std::exception_ptr Comm::fault()
{
	if (!enter())
		return nullptr;
	int rank;
	const tutti_result_t result = tutti_comm_error(comm_, &rank);
	std::exception_ptr found;

	if (C10_UNLIKELY(result < 0))
		found = failure(result, failure_text(comm_, result));
	leave();
	return found;
}

void Comm::bind(c10::Device gpu, bool all)
{
	std::lock_guard<std::mutex> lock(binding_);
	const int bound = tutti_cuda_bound(comm_);

	if (C10_LIKELY(bound == gpu.index()))
		return;
	TORCH_CHECK_VALUE(bound < 0, "tutti: found a tensor on ", gpu,
			  ", but this rank's earlier ones in this group were on the GPU of number ",
			  bound, "; expected one GPU for a rank: torch.cuda.set_device()");
	TORCH_CHECK_VALUE(all,
			  "tutti: the first operation of a group on GPUs is a send or receive, "
			  "which other ranks do not take part in; give "
			  "init_process_group() a device_id, or call a collective first");
	check(comm_, tutti_cuda_bind(comm_, gpu.index()));
}

namespace
{

// Never freed: communicators may go after what is static.
std::mutex *const open_lock = new std::mutex;
std::vector<std::weak_ptr<Comm>> *const open = new std::vector<std::weak_ptr<Comm>>;

} // namespace

void Comm::add_open(const std::shared_ptr<Comm> &comm)
{
	std::lock_guard<std::mutex> lock(*open_lock);

	open->erase(std::remove_if(open->begin(), open->end(),
				   [](const auto &one) { return one.expired(); }),
		    open->end());
	open->push_back(comm);
}

void Comm::close_all()
{
	std::vector<std::weak_ptr<Comm>> all;

	{
		std::lock_guard<std::mutex> lock(*open_lock);

		all.swap(*open);
	}
	for (const auto &one : all)
		if (const auto comm = one.lock())
			comm->close();
}

// Callbacks of futures and tensors may need Python, and other threads may be in calls.
void Comm::close()
{
	if (getpid() != process_) // locks of the parent may be held here for ever
		return;
	ReleaseGil release;
	std::lock_guard<std::mutex> lock(closing_);

	if (!comm_)
		return;
	if (!pending().empty())
		finish_dropped();
	const char *reason = "the process group was destroyed with operations pending";

	closed_.store(true);
	if (users_.load() > 0)
		tutti_comm_abort(comm_, reason);
	for (int users = users_.load(); users > 0; users = users_.load())
		users_.wait(users);
	const auto left = pending();

	if (!left.empty())
		tutti_comm_abort(comm_, reason);
	for (const auto &work : left)
		work->finish_closed();
	tutti_comm_destroy(comm_);
	comm_ = nullptr;
}

// Operations that have ended, but nobody has asked.
void Comm::finish_dropped()
{
	for (const auto &work : pending())
		work->isCompleted();
}

std::vector<c10::intrusive_ptr<HostWork>> Comm::pending() const
{
	std::lock_guard<std::mutex> lock(mutex_);

	return pending_;
}

void Comm::remember(const c10::intrusive_ptr<HostWork> &work)
{
	c10::intrusive_ptr<HostWork> dropped[2];

	{
		std::lock_guard<std::mutex> lock(mutex_);

		for (size_t i = 0; i < 2 && i < pending_.size(); i++) {
			next_ = next_ + 1 < pending_.size() ? next_ + 1 : 0;
			if (pending_[next_].use_count() == 1)
				dropped[i] = pending_[next_];
		}
		work->index_ = pending_.size();
		pending_.push_back(work);
	}
	for (const auto &one : dropped)
		if (one)
			one->isCompleted();
}

void Comm::forget(HostWork *work)
{
	c10::intrusive_ptr<HostWork> gone; // freed without the lock

	std::lock_guard<std::mutex> lock(mutex_);
	if (work->index_ >= pending_.size() || pending_[work->index_].get() != work)
		return;
	gone = std::move(pending_[work->index_]);
	if (work->index_ + 1 < pending_.size()) {
		pending_[work->index_] = std::move(pending_.back());
		pending_[work->index_]->index_ = work->index_;
	}
	pending_.pop_back();
}

} // namespace tutti_torch
