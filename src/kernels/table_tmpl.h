/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: every function of one instruction set, and its table. The including file has defined
 *   REDUCE(op, type, acc)  static void op_type(): combine numbers stored as `type` in `acc`
 *   AVERAGE(type, acc), MEAN(type), SCALE(type, acc)  likewise average_type(), mean_type(),
 *   scale_type(); CONVERT(type) (narrow_tmpl.h); copy_stream(), TABLE (the table's symbol) and ISA (its name).
 * Sums, products and scaling of signed integers are those of unsigned ones: they wrap. */

#define REDUCE_INTEGER(width)                                                                      \
	REDUCE(sum, u##width, u##width)                                                            \
	REDUCE(prod, u##width, u##width)                                                           \
	REDUCE(band, u##width, u##width)                                                           \
	REDUCE(bor, u##width, u##width)                                                            \
	REDUCE(bxor, u##width, u##width)                                                           \
	REDUCE(min, u##width, u##width)                                                            \
	REDUCE(max, u##width, u##width)                                                            \
	REDUCE(min, i##width, i##width)                                                            \
	REDUCE(max, i##width, i##width)                                                            \
	SCALE(u##width, u##width)

#define REDUCE_FLOAT(type, acc)                                                                    \
	REDUCE(sum, type, acc)                                                                     \
	REDUCE(prod, type, acc)                                                                    \
	REDUCE(min, type, acc)                                                                     \
	REDUCE(max, type, acc)                                                                     \
	AVERAGE(type, acc)                                                                         \
	SCALE(type, acc)

REDUCE_INTEGER(8)
REDUCE_INTEGER(16)
REDUCE_INTEGER(32)
REDUCE_INTEGER(64)
REDUCE_FLOAT(f16, f32)
REDUCE_FLOAT(bf16, f32)
REDUCE_FLOAT(f32, f32)
REDUCE_FLOAT(f64, f64)
REDUCE_FLOAT(e4m3, f32)
REDUCE_FLOAT(e5m2, f32)
MEAN(f16)
MEAN(bf16)
MEAN(e4m3)
MEAN(e5m2)

#include "narrow_tmpl.h"

#define ROW_WRAPPING(op)                                                                           \
	[TUTTI_INT8] = op##_u8, [TUTTI_UINT8] = op##_u8, [TUTTI_INT16] = op##_u16,                 \
	[TUTTI_UINT16] = op##_u16, [TUTTI_INT32] = op##_u32, [TUTTI_UINT32] = op##_u32,            \
	[TUTTI_INT64] = op##_u64, [TUTTI_UINT64] = op##_u64

#define ROW_SIGNED(op)                                                                             \
	[TUTTI_INT8] = op##_i8, [TUTTI_UINT8] = op##_u8, [TUTTI_INT16] = op##_i16,                 \
	[TUTTI_UINT16] = op##_u16, [TUTTI_INT32] = op##_i32, [TUTTI_UINT32] = op##_u32,            \
	[TUTTI_INT64] = op##_i64, [TUTTI_UINT64] = op##_u64

#define ROW_FLOAT(op)                                                                              \
	[TUTTI_FLOAT16] = op##_f16, [TUTTI_BFLOAT16] = op##_bf16, [TUTTI_FLOAT32] = op##_f32,      \
	[TUTTI_FLOAT64] = op##_f64, [TUTTI_FLOAT8_E4M3] = op##_e4m3,                               \
	[TUTTI_FLOAT8_E5M2] = op##_e5m2

const struct tt_kernels TABLE = {
	.isa = ISA,
	.reduce = {
		[TUTTI_SUM] = { ROW_WRAPPING(sum), ROW_FLOAT(sum) },
		[TUTTI_PROD] = { ROW_WRAPPING(prod), ROW_FLOAT(prod) },
		[TUTTI_MIN] = { ROW_SIGNED(min), ROW_FLOAT(min) },
		[TUTTI_MAX] = { ROW_SIGNED(max), ROW_FLOAT(max) },
		[TUTTI_AVG] = { ROW_WRAPPING(sum), ROW_FLOAT(sum) },
		[TUTTI_BAND] = { ROW_WRAPPING(band) },
		[TUTTI_BOR] = { ROW_WRAPPING(bor) },
		[TUTTI_BXOR] = { ROW_WRAPPING(bxor) },
	},
	.average = { ROW_SIGNED(average), ROW_FLOAT(average) },
	.mean = { [TUTTI_FLOAT16] = mean_f16, [TUTTI_BFLOAT16] = mean_bf16,
		  [TUTTI_FLOAT8_E4M3] = mean_e4m3, [TUTTI_FLOAT8_E5M2] = mean_e5m2 },
	.scale = { ROW_WRAPPING(scale), ROW_FLOAT(scale) },
	.narrow = { NARROW_ROW },
	.copy_stream = copy_stream,
};
