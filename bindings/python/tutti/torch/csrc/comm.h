// SPDX-License-Identifier: BSD-3-Clause
// A communicator, the operations that are pending on it, and its end. Works hold it, so that it
// outlives the process group; closed, it is only good for the error message.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <tutti/tutti.h>

#include "store.h"

namespace tutti_torch
{

class HostWork;
struct TuttiOptions;

class Comm
{
      public:
	// Make the communicator of all ranks that call with the same `store`. Blocks.
	Comm(const StorePtr &store, int rank, int size, const TuttiOptions &options,
	     Milliseconds timeout);
	~Comm();
	Comm(const Comm &) = delete;
	Comm &operator=(const Comm &) = delete;

	// For keys of this group, which no earlier one of its name has set.
	const StorePtr &store() const
	{
		return store_;
	}
	// Pending and later operations fail on all ranks; returns at once.
	void abort(const std::string &reason);
	// Free the communicator. Pending operations end with an error, here and on other ranks.
	void close();
	// The same for all that are open: the interpreter ends.
	static void close_all();
	static void add_open(const std::shared_ptr<Comm> &comm);
	// What operations would get; `rank`: whom it is about, -1 for none.
	tutti_result_t error(int *rank);
	// What pending operations failed with; nullptr: they did not, or the communicator is closed.
	std::exception_ptr fault();

	// Inside a Use: give the communicator the GPU on which its operations on streams are, once.
	// All ranks call, unless it has one: `all` says whether they do, as in a collective.
	void bind(c10::Device gpu, bool all);

	// A call on the communicator; while one lasts, close() waits. Throws when it is closed.
	class Use
	{
	      public:
		explicit Use(Comm &comm) : comm_(comm)
		{
			if (C10_UNLIKELY(!comm.enter()))
				throw_closed();
		}
		~Use()
		{
			comm_.leave();
		}
		Use(const Use &) = delete;
		Use &operator=(const Use &) = delete;
		tutti_comm_t get() const
		{
			return comm_.comm_;
		}

	      private:
		[[noreturn]] static void throw_closed();
		Comm &comm_;
	};
	bool enter();
	void leave();
	tutti_comm_t get() const // only inside a Use
	{
		return comm_;
	}

	// Keep an unfinished work until forget(), also if its user drops it. remember() looks at two
	// of those kept and finishes them if nobody else holds them.
	void remember(const c10::intrusive_ptr<HostWork> &work);
	void forget(HostWork *work);

      private:
	void finish_dropped();
	std::vector<c10::intrusive_ptr<HostWork>> pending() const;

	StorePtr store_;
	tutti_comm_t comm_ = nullptr;
	const pid_t process_ = getpid(); // a child of fork() leaves its copy alone
	std::mutex binding_;
	std::atomic<int> users_{ 0 };
	std::atomic<bool> closed_{ false };
	std::mutex closing_;	   // held by close()
	mutable std::mutex mutex_; // guards what follows
	std::vector<c10::intrusive_ptr<HostWork>> pending_;
	size_t next_ = 0; // to be looked at
};

} // namespace tutti_torch
