// SPDX-License-Identifier: BSD-3-Clause
// Where a call of the library takes place: on the host, blocking or with a request, or on a stream of
// a GPU.
#pragma once

#include <optional>

#include <tutti/cuda.h>
#include <tutti/tutti.h>

namespace tutti_torch
{

struct Place {
	tutti_comm_t comm;
	tutti_request_t *request; // on the host; nullptr: the call blocks
	std::optional<tutti_cuda_stream_t> stream;

	// Both functions take the same arguments between the communicator and what is above.
	template <auto on_host, auto on_stream, class... Arguments>
	tutti_result_t call(Arguments... arguments) const
	{
		return stream ? on_stream(comm, arguments..., *stream)
			      : on_host(comm, arguments..., request);
	}
};

} // namespace tutti_torch
