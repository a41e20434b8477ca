// SPDX-License-Identifier: BSD-3-Clause
// What differs between the versions of PyTorch from 2.6 on. All else is the same for all of them. Where a
// virtual function is new, ours is not marked as overriding: older versions never call it.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/version.h>

namespace tutti_torch
{

#if TORCH_VERSION_MINOR >= 7
using ErrorType = c10d::ErrorType;
#else
enum class ErrorType { SUCCESS, TIMEOUT, COMM_ERROR, REMOTE_ERROR };
#endif

#if TORCH_VERSION_MINOR >= 13
using PreMulSumSupplement = c10d::PreMulSumSupplement;
#else
using PreMulSumSupplement = c10d::NCCLPreMulSumSupplement;
#endif

// Whether the caller wants a request. In older versions not all options say so.
template <class Options> bool is_async(const Options &options)
{
	if constexpr (requires { options.asyncOp; })
		return options.asyncOp;
	else
		return true;
}

// Types of operations that came with 2.14.
template <class Type = c10d::OpType> constexpr Type all_gather_tensors_type()
{
	if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; })
		return Type::ALLGATHER_INTO_TENSOR_COALESCED;
	else
		return Type::COALESCED;
}

template <class Type = c10d::OpType> constexpr Type reduce_scatter_tensors_type()
{
	if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
		return Type::REDUCE_SCATTER_TENSOR_COALESCED;
	else
		return Type::COALESCED;
}

// The device's own stream. Before 2.10 only the headers of CUDA tell it: tensors on GPUs are refused.
template <class Stream> void *native_handle(const Stream &stream)
{
	if constexpr (requires { stream.native_handle(); })
		return static_cast<void *>(stream.native_handle());
	else
		C10_THROW_ERROR(NotImplementedError,
				"tutti: tensors on GPUs need PyTorch 2.10 or newer; use "
				"\"cpu:tutti,cuda:nccl\"");
}

// Options know the name and the ranks of their group from 2.8 on.
template <class Options>
void set_group(Options &options, const std::string &name, const std::vector<uint64_t> &ranks)
{
	if constexpr (requires { options.group_name; }) {
		options.group_name = name;
		options.global_ranks_in_group = ranks;
	}
}

template <class Options> void copy_group(Options &to, const Options &from)
{
	if constexpr (requires { from.group_name; })
		set_group(to, from.group_name, from.global_ranks_in_group);
}

template <class Options> std::string group_name(const Options &options)
{
	if constexpr (requires { options.group_name; })
		return options.group_name;
	else
		return "";
}

} // namespace tutti_torch
