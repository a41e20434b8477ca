// SPDX-License-Identifier: BSD-3-Clause
#include "comm.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <tutti/cuda.h>

#include "errors.h"
#include "gil.h"
#include "options.h"
#include "host_work.h"

namespace tutti_torch
{

namespace
{

using Milliseconds = std::chrono::milliseconds;

const char *const KEY_NAME = "tutti/key"; // of the job's key in PyTorch's store

// PyTorch's store as tutti_store_ops_t. What it throws is kept for the error message.
struct StoreContext {
	c10::intrusive_ptr<c10d::Store> store;
	std::string error;
};

int store_set(void *context, const char *key, const void *value, size_t length)
{
	auto *self = static_cast<StoreContext *>(context);
	const auto *bytes = static_cast<const uint8_t *>(value);

	try {
		self->store->set(key, std::vector<uint8_t>(bytes, bytes + length));
		return 0;
	} catch (const std::exception &error) {
		self->error = error.what();
		return EIO;
	}
}

int store_get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	auto *self = static_cast<StoreContext *>(context);
	const auto begin = std::chrono::steady_clock::now();
	const auto limit = Milliseconds(int64_t(timeout_s * 1000) + 1);

	try {
		self->store->wait({ key }, limit);
		const auto found = self->store->get(key);

		if (found.size() > *length) {
			*length = found.size();
			return EMSGSIZE;
		}
		if (!found.empty())
			memcpy(value, found.data(), found.size());
		*length = found.size();
		return 0;
	} catch (const std::exception &error) {
		if (std::chrono::steady_clock::now() - begin >= limit - Milliseconds(1))
			return ETIMEDOUT;
		self->error = error.what();
		return EIO;
	}
}

// A connection of our own: waits must not hold up the program's other uses of the store.
c10::intrusive_ptr<c10d::Store> own_connection(const c10::intrusive_ptr<c10d::Store> &store)
{
	try {
		return store->clone();
	} catch (const std::exception &) { // a store in Python need not have it
		return store;
	}
}

bool environment_has_key()
{
	for (const char *name : { "TUTTI_KEY", "TUTTI_KEY_FILE" })
		if (const char *value = getenv(name); value && *value)
			return true;
	return false;
}

// Ranks on several hosts need a key. Unless the user has given one, rank 0 makes it, and PyTorch's
// store hands it on, which then is what protects it.
std::string job_key(StoreContext &context, int rank, const TuttiOptions &options,
		    Milliseconds timeout)
{
	char key[TUTTI_KEY_LENGTH + 1];

	if (!options.key.empty() || environment_has_key())
		return options.key;
	if (rank == 0) {
		check(nullptr, tutti_key_make(key));
		context.store->set(KEY_NAME, std::string(key));
		return key;
	}
	context.store->wait({ KEY_NAME }, timeout);
	return context.store->get_to_str(KEY_NAME);
}

const char *or_null(const std::string &text)
{
	return text.empty() ? nullptr : text.c_str();
}

} // namespace

Comm::Comm(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
	   const TuttiOptions &options, Milliseconds timeout)
{
	StoreContext context{ own_connection(store), "" };
	const std::string key = size > 1 ? job_key(context, rank, options, timeout) : options.key;
	const tutti_store_ops_t ops = { sizeof(ops), store_set, store_get, nullptr };
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_store_t meeting;

	config.timeout_s = std::chrono::duration<double>(timeout).count();
	config.transports = or_null(options.transports);
	config.algorithm = or_null(options.algorithm);
	config.host_id = or_null(options.host_id);
	config.key = or_null(key);
	config.reproducible = options.reproducible;
	config.encrypt = options.encrypt;
	if (!options.wire.empty())
		check(nullptr, tutti_wire_parse(options.wire.c_str(), &config.wire));
	check(nullptr, tutti_store_create(&ops, &context, &meeting));
	const tutti_result_t result = tutti_comm_create(meeting, rank, size, &config, &comm_);
	std::string text = result < 0 ? failure_text(nullptr, result) : "";

	tutti_store_close(meeting);
	if (result < 0 && !context.error.empty())
		text += " (PyTorch's store: " + context.error + ")";
	if (result < 0)
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
