/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: the words of vec_tmpl.h that AVX2 and AVX-512 spell alike but for the width. The
 * including file has defined
 *   vec, half          a register of integers, and one of half the width
 *   vec_ps, vec_pd     a register of float32, of float64
 *   MM(name)           the intrinsic of that name for whole registers. */

static inline vec widen_half(half value)
{
	return MM(cvtepu16_epi32)(value);
}

static inline vec decode_f16(half value)
{
	return (vec)MM(cvtph_ps)(value);
}

static inline half encode_f16(vec value)
{
	return MM(cvtps_ph)((vec_ps)value, _MM_FROUND_TO_NEAREST_INT);
}

#define ORDER_INTEGER(type, suffix)                                                                \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return MM(min_##suffix)(a, b);                                                     \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		return MM(max_##suffix)(a, b);                                                     \
	}

ORDER_INTEGER(i8, epi8)
ORDER_INTEGER(u8, epu8)
ORDER_INTEGER(i16, epi16)
ORDER_INTEGER(u16, epu16)
ORDER_INTEGER(i32, epi32)
ORDER_INTEGER(u32, epu32)

/* The instruction gives its second operand where one is a NaN or both are zeros. Asked both ways
 * round, OR, that of the type `bits`, then makes a NaN of NaN and number, and the lesser zero of
 * two zeros. */
#define ORDER_FLOAT(type, suffix, bits)                                                            \
	static inline vec min_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const vec_##suffix x = (vec_##suffix)a, y = (vec_##suffix)b;                       \
                                                                                                   \
		return (vec)MM(or_##bits)((vec_##bits)MM(min_##suffix)(x, y),                      \
					  (vec_##bits)MM(min_##suffix)(y, x));                     \
	}                                                                                          \
	static inline vec max_of_##type(vec a, vec b)                                              \
	{                                                                                          \
		const vec sign = (vec)MM(set1_##suffix)(-0.0);                                     \
                                                                                                   \
		return min_of_##type(a ^ sign, b ^ sign) ^ sign;                                   \
	}

ORDER_FLOAT(f32, ps, ps)
ORDER_FLOAT(f64, pd, pd)
