// SPDX-License-Identifier: BSD-3-Clause
// Which of tutti's element types and operations stand for PyTorch's.
#pragma once

#include <optional>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <tutti/tutti.h>

namespace tutti_torch
{

// A tensor's elements as tutti counts them. A complex number is two.
struct Elements {
	tutti_dtype_t dtype;
	size_t each; // elements of `dtype` for one of the tensor
};

// How elements of `type` move. Types that tutti has not go as bytes.
Elements moved_as(at::ScalarType type);

// How elements of `type` are reduced by `op`, and which operation that is. PREMUL_SUM is a sum here:
// its factor is applied before (premultiplied()). Throws where the operation is not defined.
struct Reduction {
	Elements elements;
	tutti_op_t op;
};
Reduction reduced_as(at::ScalarType type, const c10d::ReduceOp &op);

// `tensor` times the factor of a PREMUL_SUM, a new tensor; other operations: `tensor`.
at::Tensor premultiplied(const at::Tensor &tensor, const c10d::ReduceOp &op);

} // namespace tutti_torch
