// SPDX-License-Identifier: BSD-3-Clause
// How results of the C library become PyTorch's exceptions.
#pragma once

#include <stdexcept>
#include <string>

#include <c10/util/Exception.h>

#include <tutti/tutti.h>

namespace tutti_torch
{

// What the library says of the last failure. The text is valid until this thread's next call.
inline std::string failure_text(tutti_comm_t comm, tutti_result_t result)
{
	const char *text = tutti_last_error(comm);

	// programs look for these words, as Gloo and NCCL have them
	return std::string(result == TUTTI_ERR_TIMEOUT ? "tutti: Timed out : " : "tutti: ") +
	       (*text ? text : tutti_strerror(result));
}

// TUTTI_ERR_INVALID is an error of the caller, and the group lives on; any other one is the group's.
[[noreturn]] inline void throw_failure(tutti_result_t result, const std::string &text)
{
	if (result == TUTTI_ERR_INVALID)
		C10_THROW_ERROR(ValueError, text);
	if (result == TUTTI_ERR_UNSUPPORTED)
		C10_THROW_ERROR(NotImplementedError, text);
	C10_THROW_ERROR(DistBackendError, text);
}

inline std::exception_ptr failure(tutti_result_t result, const std::string &text)
{
	try {
		throw_failure(result, text);
	} catch (...) {
		return std::current_exception();
	}
}

inline void check(tutti_comm_t comm, tutti_result_t result)
{
	if (C10_UNLIKELY(result < 0))
		throw_failure(result, failure_text(comm, result));
}

} // namespace tutti_torch
