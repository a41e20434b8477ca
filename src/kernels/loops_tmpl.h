/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: the loops over vectors, and REDUCE, AVERAGE, MEAN, SCALE and CONVERT for table_tmpl.h, each
 * of which is one of the loops with a format and an operation folded into it by the compiler.
 *
 * All vectors but the first and the last are stored aligned: a store that crosses cache lines
 * takes twice as long. So the first overlaps the second one unless `dst` is aligned, and the
 * last the one before it unless it ends there. These two are computed first, while the sources
 * are untouched, and stored last: so `dst` may be a source, and only buffers shorter than one
 * vector need masks or parts. */
#include <stdatomic.h>

FORMAT(u8, uint8_t, vec, , )
FORMAT(u16, uint16_t, vec, , )
FORMAT(u32, uint32_t, vec, , )
FORMAT(u64, uint64_t, vec, , )
FORMAT(f32, float, vec, , )
FORMAT(f64, double, vec, , )
FORMAT(f16, uint16_t, half, decode_f16, encode_f16)
FORMAT(bf16, uint16_t, half, decode_bf16, encode_bf16)
FORMAT(e4m3, uint8_t, quarter, decode_e4m3, encode_e4m3)
FORMAT(e5m2, uint8_t, quarter, decode_e5m2, encode_e5m2)

/* Signed integers lie in memory as unsigned ones do. */
#define i8_format  u8_format
#define i16_format u16_format
#define i32_format u32_format
#define i64_format u64_format

typedef vec vec_op(vec a, vec b);

/* Bytes from `dst` to where the second vector begins: a vector at most, and whole numbers. */
INLINE size_t second_vector(const char *dst, const struct format *f)
{
	const size_t step = f->lanes * f->width;

	return (step - (uintptr_t)dst % step) / f->width * f->width;
}

/* In the order of addresses, which the compiler may not change: the processor joins stores that
 * follow each other in a cache line. The fences hold back the compiler alone and are no
 * instructions. */
INLINE void store_two(char *dst, vec v0, vec v1, const struct format *f)
{
	f->store(dst, v0);
	atomic_signal_fence(memory_order_release);
	f->store(dst + f->lanes * f->width, v1);
	atomic_signal_fence(memory_order_release);
}

INLINE void store_four(char *dst, vec v0, vec v1, vec v2, vec v3, const struct format *f)
{
	store_two(dst, v0, v1, f);
	store_two(dst + 2 * f->lanes * f->width, v2, v3, f);
}

/* dst = a op b; n >= lanes */
INLINE void reduce_two(char *dst, const char *a, const char *b, size_t n, const struct format *f,
		       vec_op *op)
{
	const size_t step = f->lanes * f->width, end = n * f->width;
	size_t i = second_vector(dst, f);

	const vec first = op(f->load(a), f->load(b));
	const vec last = op(f->load(a + end - step), f->load(b + end - step));

	for (; i + 4 * step <= end; i += 4 * step) {
		const vec v0 = op(f->load(a + i), f->load(b + i));
		const vec v1 = op(f->load(a + i + step), f->load(b + i + step));
		const vec v2 = op(f->load(a + i + 2 * step), f->load(b + i + 2 * step));
		const vec v3 = op(f->load(a + i + 3 * step), f->load(b + i + 3 * step));

		store_four(dst + i, v0, v1, v2, v3, f);
	}
	for (; i + step < end; i += step)
		f->store(dst + i, op(f->load(a + i), f->load(b + i)));
	f->store(dst, first);
	f->store(dst + end - step, last);
}

/* What is done to a result before it is stored, if anything. */
struct finish {
	vec_op *op;
	vec with;
};

INLINE vec keep(vec a, vec unused)
{
	return a;
}

#define KEEP ((struct finish){ keep, SPLAT(u8, 0) })

INLINE vec finished(vec v, struct finish end)
{
	return end.op(v, end.with);
}

/* One vector, `at` bytes into the buffers, of all sources combined. */
INLINE vec across(const void *const *src, unsigned nsrc, size_t at, const struct format *f,
		  vec_op *op, struct finish finish)
{
	vec v = f->load((const char *)src[0] + at);

	for (unsigned s = 1; s < nsrc; s++)
		v = op(v, f->load((const char *)src[s] + at));
	return finished(v, finish);
}

/* dst = src[0] op src[1] op …; n < lanes */
INLINE void reduce_part(char *dst, const void *const *src, unsigned nsrc, size_t n,
			const struct format *f, vec_op *op, struct finish finish)
{
	vec v = f->load_part(src[0], n);

	for (unsigned s = 1; s < nsrc; s++)
		v = op(v, f->load_part(src[s], n));
	f->store_part(dst, finished(v, finish), n);
}

/* The same, n >= lanes: a few vectors stay in registers over all sources. */
INLINE void reduce_many(char *dst, const void *const *src, unsigned nsrc, size_t n,
			const struct format *f, vec_op *op, struct finish finish)
{
	const size_t step = f->lanes * f->width, end = n * f->width;
	size_t i = second_vector(dst, f);

	const vec first = across(src, nsrc, 0, f, op, finish);
	const vec last = across(src, nsrc, end - step, f, op, finish);

	for (; i + 4 * step <= end; i += 4 * step) {
		const char *from = (const char *)src[0] + i;
		vec v0 = f->load(from), v1 = f->load(from + step);
		vec v2 = f->load(from + 2 * step), v3 = f->load(from + 3 * step);

		for (unsigned s = 1; s < nsrc; s++) {
			from = (const char *)src[s] + i;
			v0 = op(v0, f->load(from));
			v1 = op(v1, f->load(from + step));
			v2 = op(v2, f->load(from + 2 * step));
			v3 = op(v3, f->load(from + 3 * step));
		}
		store_four(dst + i, finished(v0, finish), finished(v1, finish),
			   finished(v2, finish), finished(v3, finish), f);
	}
	for (; i + step < end; i += step)
		f->store(dst + i, across(src, nsrc, i, f, op, finish));
	f->store(dst, first);
	f->store(dst + end - step, last);
}

/* dst = a op b, b the same for all */
INLINE void apply(char *dst, const char *a, vec b, size_t n, const struct format *f, vec_op *op)
{
	const size_t step = f->lanes * f->width, end = n * f->width;
	size_t i = second_vector(dst, f);

	if (n < f->lanes) {
		f->store_part(dst, op(f->load_part(a, n), b), n);
		return;
	}
	const vec first = op(f->load(a), b), last = op(f->load(a + end - step), b);

	for (; i + 2 * step <= end; i += 2 * step) {
		const vec v0 = op(f->load(a + i), b), v1 = op(f->load(a + i + step), b);

		store_two(dst + i, v0, v1, f);
	}
	if (i + step < end)
		f->store(dst + i, op(f->load(a + i), b));
	f->store(dst, first);
	f->store(dst + end - step, last);
}

/* Numbers of one format in another with as many lanes. */
INLINE void convert(char *dst, const struct format *to, const char *src, const struct format *from,
		    size_t n)
{
	size_t i = 0;

	for (; i + to->lanes <= n; i += to->lanes)
		to->store(dst + i * to->width, from->load(src + i * from->width));
	if (i < n)
		to->store_part(dst + i * to->width, from->load_part(src + i * from->width, n - i),
			       n - i);
}

/* dst = a * of_a + b * of_b, in f32 */
INLINE vec weighted(vec a, vec of_a, vec b, vec of_b)
{
	return sum_of_f32(prod_of_f32(a, of_a), prod_of_f32(b, of_b));
}

INLINE void mean(char *dst, const char *a, vec of_a, const char *b, vec of_b, size_t n,
		 const struct format *f)
{
	const size_t step = f->lanes * f->width, end = n * f->width;
	size_t i = second_vector(dst, f);

	if (n < f->lanes) {
		f->store_part(dst, weighted(f->load_part(a, n), of_a, f->load_part(b, n), of_b), n);
		return;
	}
	const vec first = weighted(f->load(a), of_a, f->load(b), of_b);
	const vec last = weighted(f->load(a + end - step), of_a, f->load(b + end - step), of_b);

	for (; i + 2 * step <= end; i += 2 * step) {
		const vec v0 = weighted(f->load(a + i), of_a, f->load(b + i), of_b);
		const vec v1 = weighted(f->load(a + i + step), of_a, f->load(b + i + step), of_b);

		store_two(dst + i, v0, v1, f);
	}
	if (i + step < end)
		f->store(dst + i, weighted(f->load(a + i), of_a, f->load(b + i), of_b));
	f->store(dst, first);
	f->store(dst + end - step, last);
}

/* Three functions behind one that only jumps: a sum of two numbers pays for no prologue of the
 * loops. */
#define REDUCE_TWO(op, type, acc)                                                                  \
	static NOINLINE void op##_part_##type(void *dst, const void *const *src, unsigned nsrc,    \
					      size_t n)                                            \
	{                                                                                          \
		reduce_part(dst, src, nsrc, n, &type##_format, op##_of_##acc, KEEP);               \
	}                                                                                          \
	static NOINLINE void op##_two_##type(void *dst, const void *a, const void *b, size_t n)    \
	{                                                                                          \
		reduce_two(dst, a, b, n, &type##_format, op##_of_##acc);                           \
	}

#define REDUCE(op, type, acc)                                                                      \
	REDUCE_TWO(op, type, acc)                                                                  \
	static NOINLINE void op##_many_##type(void *dst, const void *const *src, unsigned nsrc,    \
					      size_t n)                                            \
	{                                                                                          \
		reduce_many(dst, src, nsrc, n, &type##_format, op##_of_##acc, KEEP);               \
	}                                                                                          \
	static void op##_##type(void *dst, const void *const *src, unsigned nsrc, size_t n)        \
	{                                                                                          \
		if (n < type##_format.lanes)                                                       \
			op##_part_##type(dst, src, nsrc, n);                                       \
		else if (nsrc == 2)                                                                \
			op##_two_##type(dst, src[0], src[1], n);                                   \
		else                                                                               \
			op##_many_##type(dst, src, nsrc, n);                                       \
	}

#define AVERAGE(type, acc)                                                                         \
	static void average_##type(void *dst, const void *const *src, unsigned nsrc, size_t n,     \
				   unsigned divisor)                                               \
	{                                                                                          \
		const __typeof__(((acc##v){ 0 })[0]) number = divisor;                             \
		const struct finish finish = { quotient_of_##acc, SPLAT(acc, number) };            \
                                                                                                   \
		if (n < type##_format.lanes)                                                       \
			reduce_part(dst, src, nsrc, n, &type##_format, sum_of_##acc, finish);      \
		else                                                                               \
			reduce_many(dst, src, nsrc, n, &type##_format, sum_of_##acc, finish);      \
	}

#define MEAN(type)                                                                                 \
	static void mean_##type(void *dst, const void *const src[2], const float share[2],         \
				size_t n)                                                          \
	{                                                                                          \
		mean(dst, src[0], SPLAT(f32, share[0]), src[1], SPLAT(f32, share[1]), n,           \
		     &type##_format);                                                              \
	}

#define SCALE(type, acc)                                                                           \
	static void scale_##type(void *dst, const void *src, size_t n, const void *scalar)         \
	{                                                                                          \
		const acc##v factor = (acc##v)load_part_##type(scalar, 1);                         \
                                                                                                   \
		apply(dst, src, SPLAT(acc, factor[0]), n, &type##_format, prod_of_##acc);          \
	}

#define CONVERT(type)                                                                              \
	static void pack_##type(void *dst, const void *src, size_t n)                              \
	{                                                                                          \
		convert(dst, &type##_format, src, &f32_format, n);                                 \
	}                                                                                          \
	static void unpack_##type(void *dst, const void *src, size_t n)                            \
	{                                                                                          \
		convert(dst, &f32_format, src, &type##_format, n);                                 \
	}
