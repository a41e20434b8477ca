// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's store as the library's, and the one way in which the backend waits for a key of it.
//
// A wait of TCPStore that ends without the key logs two warnings, each after it has looked up the
// name of a host, and keeps the store from everybody else. So keys are asked for with check(), which
// returns at once, in growing intervals.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <tutti/tutti.h>

namespace tutti_torch
{

using Milliseconds = std::chrono::milliseconds;
using Microseconds = std::chrono::microseconds;
using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Ask until the answer is true, for so long; whether it was. The pauses between begin with `pause` and double.
template <class Ask> bool poll(Ask ask, Microseconds limit, Microseconds pause = Microseconds(100))
{
	constexpr Microseconds longest(32000); // a thousand ranks then ask 30000 times a second
	const auto end = Clock::now() + limit;

	while (!ask()) {
		const auto left = std::chrono::duration_cast<Microseconds>(end - Clock::now());

		if (left <= Microseconds(0))
			return false;
		std::this_thread::sleep_for(std::min({ pause, left, longest }));
		pause = std::min(2 * pause, longest);
	}
	return true;
}

inline bool wait_for(c10d::Store &store, const std::string &key, Microseconds limit)
{
	return poll([&] { return store.check({ key }); }, limit);
}

// Values that may be "" have a sign before them, as PyTorch's stores take an empty one for none.
inline std::string with_sign(const std::string &value)
{
	return "=" + value;
}

// What another process has set there `with_sign`.
std::string get_signed(c10d::Store &store, const std::string &key);

// A store of the library's, as long as this lives.
class LibraryStore
{
      public:
	explicit LibraryStore(StorePtr store);
	~LibraryStore();
	LibraryStore(const LibraryStore &) = delete;
	LibraryStore &operator=(const LibraryStore &) = delete;

	tutti_store_t get() const
	{
		return handle_;
	}
	// What ended the calls of the store, if it was thrown: a signal's, or PyTorch's behind `text`.
	void rethrow(const std::string &text) const;

      private:
	static int set(void *self, const char *key, const void *value, size_t length);
	static int get(void *self, const char *key, void *value, size_t *length, double timeout_s);

	template <class Call> int guarded(Call call);

	StorePtr store_;
	std::exception_ptr thrown_; // from then on all calls fail
	tutti_store_t handle_ = nullptr;
};

} // namespace tutti_torch
