// SPDX-License-Identifier: BSD-3-Clause
// One making of a process group. PyTorch's store and the name of a group do not tell it from an earlier
// one: torchrun's agent keeps its store over restarts, a program may destroy a group and make it anew.
// What an earlier generation left must not be taken for this one's, however far that one came.
#pragma once

#include <string>

#include "store.h"

namespace tutti_torch
{

struct Generation {
	StorePtr store;	 // in which no other generation has keys
	std::string key; // the job's key, from rank 0; "": rank 0 has one from elsewhere
};

// Returns when all ranks have called. `key`: rank 0's for the others, where it makes one. Throws at the
// deadline, with the ranks that have not come.
Generation join_generation(const StorePtr &store, int rank, int size, const std::string &key,
			   Milliseconds timeout);

} // namespace tutti_torch
