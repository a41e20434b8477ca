// SPDX-License-Identifier: BSD-3-Clause
#include "types.h"

#include "versions.h"

namespace tutti_torch
{

namespace
{

std::optional<Elements> element_type(at::ScalarType type)
{
	switch (type) {
	case at::kByte:
	case at::kBool: return Elements{ TUTTI_UINT8, 1 };
	case at::kChar: return Elements{ TUTTI_INT8, 1 };
	case at::kShort: return Elements{ TUTTI_INT16, 1 };
	case at::kUInt16: return Elements{ TUTTI_UINT16, 1 };
	case at::kInt: return Elements{ TUTTI_INT32, 1 };
	case at::kUInt32: return Elements{ TUTTI_UINT32, 1 };
	case at::kLong: return Elements{ TUTTI_INT64, 1 };
	case at::kUInt64: return Elements{ TUTTI_UINT64, 1 };
	case at::kHalf: return Elements{ TUTTI_FLOAT16, 1 };
	case at::kBFloat16: return Elements{ TUTTI_BFLOAT16, 1 };
	case at::kFloat: return Elements{ TUTTI_FLOAT32, 1 };
	case at::kDouble: return Elements{ TUTTI_FLOAT64, 1 };
	case at::kFloat8_e4m3fn: return Elements{ TUTTI_FLOAT8_E4M3, 1 };
	case at::kFloat8_e5m2: return Elements{ TUTTI_FLOAT8_E5M2, 1 };
	case at::kComplexHalf: return Elements{ TUTTI_FLOAT16, 2 };
	case at::kComplexFloat: return Elements{ TUTTI_FLOAT32, 2 };
	case at::kComplexDouble: return Elements{ TUTTI_FLOAT64, 2 };
	default: return std::nullopt;
	}
}

const char *name_of(c10d::ReduceOp::RedOpType op)
{
	static const char *const names[] = { "SUM",  "AVG", "PRODUCT", "MIN",	    "MAX",
					     "BAND", "BOR", "BXOR",    "PREMUL_SUM" };

	return op < std::size(names) ? names[op] : "UNUSED";
}

// A bool is a byte, of which a view of other memory may have any value: each but 0 is true. As in NCCL, the
// sum and the maximum are "or", the others "and". "Exclusive or" is right for bytes of 0 and 1 alone.
tutti_op_t op_of_bools(c10d::ReduceOp::RedOpType op)
{
	switch (op) {
	case c10d::ReduceOp::SUM:
	case c10d::ReduceOp::MAX:
	case c10d::ReduceOp::BOR: return TUTTI_MAX;
	case c10d::ReduceOp::PRODUCT:
	case c10d::ReduceOp::MIN:
	case c10d::ReduceOp::BAND: return TUTTI_MIN;
	case c10d::ReduceOp::BXOR: return TUTTI_BXOR;
	default:
		TORCH_CHECK_TYPE(false, "Cannot use ReduceOp.", name_of(op),
				 " with bool tensors; convert them to a number type first");
	}
}

tutti_op_t op_of_numbers(c10d::ReduceOp::RedOpType op, at::ScalarType type)
{
	const bool bitwise = op == c10d::ReduceOp::BAND || op == c10d::ReduceOp::BOR ||
			     op == c10d::ReduceOp::BXOR;

	TORCH_CHECK_TYPE(!bitwise || at::isIntegralType(type, false), "Cannot use ReduceOp.",
			 name_of(op), " with non-integral dtype ", type);
	switch (op) {
	case c10d::ReduceOp::SUM:
	case c10d::ReduceOp::PREMUL_SUM: return TUTTI_SUM;
	case c10d::ReduceOp::AVG: return TUTTI_AVG;
	case c10d::ReduceOp::PRODUCT: return TUTTI_PROD;
	case c10d::ReduceOp::MIN: return TUTTI_MIN;
	case c10d::ReduceOp::MAX: return TUTTI_MAX;
	case c10d::ReduceOp::BAND: return TUTTI_BAND;
	case c10d::ReduceOp::BOR: return TUTTI_BOR;
	case c10d::ReduceOp::BXOR: return TUTTI_BXOR;
	default: TORCH_CHECK_VALUE(false, "tutti has no reduction of number ", int(op));
	}
}

} // namespace

Elements moved_as(at::ScalarType type)
{
	return element_type(type).value_or(Elements{ TUTTI_UINT8, c10::elementSize(type) });
}

Reduction reduced_as(at::ScalarType type, const c10d::ReduceOp &op)
{
	const auto elements = element_type(type);

	TORCH_CHECK_TYPE(elements, "tutti cannot reduce tensors of type ", type,
			 "; convert them to a type of tutti's first (docs/guide/pytorch.md)");
	if (type == at::kBool)
		return { *elements, op_of_bools(op.op_) };
	TORCH_CHECK_TYPE(!c10::isComplexType(type) || op.op_ == c10d::ReduceOp::SUM ||
				 op.op_ == c10d::ReduceOp::AVG ||
				 op.op_ == c10d::ReduceOp::PREMUL_SUM,
			 "Cannot use ReduceOp.", name_of(op.op_), " with complex tensors (", type,
			 "); SUM, AVG and PREMUL_SUM can");
	return { *elements, op_of_numbers(op.op_, type) };
}

at::Tensor premultiplied(const at::Tensor &tensor, const c10d::ReduceOp &op)
{
	if (op.op_ != c10d::ReduceOp::PREMUL_SUM)
		return tensor;
	const auto *factor = dynamic_cast<PreMulSumSupplement *>(op.supplement_.get());

	TORCH_CHECK_VALUE(factor, "ReduceOp.PREMUL_SUM has no factor; make it by "
				  "torch.distributed._make_nccl_premul_sum(factor)");
	// PyTorch has no product of float8 on the CPU
	const auto wide = at::isFloat8Type(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
	const auto product = factor->tensor_factor.defined()
				     ? wide.mul(factor->tensor_factor.to(wide.options()))
				     : wide.mul(factor->double_factor);

	return product.to(tensor.scalar_type()).contiguous();
}

} // namespace tutti_torch
