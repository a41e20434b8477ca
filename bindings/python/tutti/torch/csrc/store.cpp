// SPDX-License-Identifier: BSD-3-Clause
#include "store.h"

#include <cerrno>
#include <cstring>

#include "errors.h"
#include "gil.h"

namespace tutti_torch
{

std::string get_signed(c10d::Store &store, const std::string &key)
{
	const std::string found = store.get_to_str(key);

	if (found.compare(0, 1, "=") != 0)
		throw_failure(TUTTI_ERR_UNSUPPORTED,
			      "tutti: the key " + key + " of PyTorch's store has a value of " +
				      std::to_string(found.size()) +
				      " bytes, expected one that begins with =; all ranks must "
				      "have the same version of tutti");
	return found.substr(1);
}

LibraryStore::LibraryStore(StorePtr store) : store_(std::move(store))
{
	const tutti_store_ops_t ops = { sizeof(ops), set, get, nullptr };

	check(nullptr, tutti_store_create(&ops, this, &handle_));
}

LibraryStore::~LibraryStore()
{
	tutti_store_close(handle_);
}

template <class Call> int LibraryStore::guarded(Call call)
{
	if (thrown_)
		return EIO;
	try {
		return call();
	} catch (...) {
		thrown_ = std::current_exception();
		return EIO;
	}
}

int LibraryStore::set(void *context, const char *key, const void *value, size_t length)
{
	auto *self = static_cast<LibraryStore *>(context);
	const auto *bytes = static_cast<const uint8_t *>(value);

	return self->guarded([&] {
		self->store_->set(key, std::vector<uint8_t>(bytes, bytes + length));
		return 0;
	});
}

// The library waits in growing slices of time. That may take long, so a signal ends it.
int LibraryStore::get(void *context, const char *key, void *value, size_t *length, double timeout_s)
{
	auto *self = static_cast<LibraryStore *>(context);
	const Microseconds slice(int64_t(timeout_s * 1e6));
	const auto has_come = [&] {
		if (slice > Microseconds(0))
			handle_signals();
		return self->store_->check({ key });
	};

	return self->guarded([&] {
		if (!poll(has_come, slice, slice / 2))
			return ETIMEDOUT;
		const auto found = self->store_->get(key);
		const size_t room = *length;

		*length = found.size();
		if (found.size() > room)
			return EMSGSIZE;
		if (!found.empty())
			memcpy(value, found.data(), found.size());
		return 0;
	});
}

void LibraryStore::rethrow(const std::string &text) const
{
	if (!thrown_)
		return;
	try {
		std::rethrow_exception(thrown_);
	} catch (const pybind11::error_already_set &) {
		throw;
	} catch (const std::exception &error) {
		throw_failure(TUTTI_ERR_SYSTEM, text + " (PyTorch's store: " + error.what() + ")");
	}
}

} // namespace tutti_torch
