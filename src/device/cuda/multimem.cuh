/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast addresses, which stand for the memory of all ranks: loads give the sum of what all have there,
 * stores go to all (PTX ISA 8.1, multimem.ld_reduce and multimem.st; compute capability 9.0). */
#ifndef TT_CUDA_MULTIMEM_CUH
#define TT_CUDA_MULTIMEM_CUH

#include "exchange.cuh"
#include "moving.cuh"

#define MULTICAST_UNITS 4 /* of a thread, on their way at once */

DEVICE void store_to_all(unit<16> *to, const unit<16> &value)
{
#if ARCH >= 900
	uint32_t word[4];

	memcpy(word, &value, sizeof(word));
	asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(to), "f"(__uint_as_float(word[0])), "f"(__uint_as_float(word[1])),
		       "f"(__uint_as_float(word[2])), "f"(__uint_as_float(word[3]))
		     : "memory");
#elif !defined(__CUDACC__)
	unit<16> *all[TT_CUDA_RANKS];
	const unsigned n = standin_multicast(to, (void **)all);

	for (unsigned i = 0; i < n; i++)
		store(all[i], value);
#endif
}

/* The sum of numbers N; `instruction` is the switch's, which adds half types in float. */
#if ARCH >= 900
#define SUM_OF_ALL(N, instruction)                                                                 \
	uint32_t word[4];                                                                          \
	unit<16> value;                                                                            \
                                                                                                   \
	asm volatile("multimem.ld_reduce.relaxed.sys.global.add" instruction                       \
		     " {%0, %1, %2, %3}, [%4];"                                                    \
		     : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])                  \
		     : "l"(from)                                                                   \
		     : "memory");                                                                  \
	memcpy(&value, word, sizeof(value));                                                       \
	return value;
#elif defined(__CUDACC__)
#define SUM_OF_ALL(N, instruction) return unit<16>(); /* such a GPU has no switch */
#else
#define SUM_OF_ALL(N, instruction)                                                                 \
	const unit<16> *all[TT_CUDA_RANKS];                                                        \
	const unsigned n = standin_multicast(from, (void **)all);                                  \
	unit<16> value = unit<16>();                                                               \
                                                                                                   \
	for (int e = 0; e < 16 / N::WIDTH; e++) {                                                  \
		typename N::acc sum = N::read(get<typename N::bits, N::WIDTH>(*all[0], e));        \
                                                                                                   \
		for (unsigned i = 1; i < n; i++)                                                   \
			sum += N::read(get<typename N::bits, N::WIDTH>(*all[i], e));               \
		put<typename N::bits, N::WIDTH>(value, e, N::write(sum));                          \
	}                                                                                          \
	return value;
#endif

/* What a kernel is to run: LOAD of each unit of src[0], stored to dst[0] of all ranks. The first has a
 * multicast address, too, where a sum is loaded. */
template <class LOAD> struct multicasting {
	__device__ static void move(const struct tt_cuda_part &part, const struct places &places)
	{
		const unit<16> *from = (const unit<16> *)places.src[0];
		unit<16> *to = (unit<16> *)places.dst[0];
		const uint64_t units = part.piece[0].bytes / 16;

		NO_UNROLL
		for (uint64_t i = thread_number(); i < units;
		     i += MULTICAST_UNITS * thread_count()) {
			unit<16> some[MULTICAST_UNITS];

			UNROLL
			for (int row = 0; row < MULTICAST_UNITS; row++)
				if (i + row * thread_count() < units)
					some[row] = LOAD::load(&from[i + row * thread_count()]);
			UNROLL
			for (int row = 0; row < MULTICAST_UNITS; row++)
				if (i + row * thread_count() < units)
					store_to_all(&to[i + row * thread_count()], some[row]);
		}
	}

	__device__ static bool swap(const struct exchange &exchange)
	{
		return true;
	}
};

struct as_it_is {
	__device__ static unit<16> load(const unit<16> *from)
	{
		return *from;
	}
};

#define MULTICAST_SUM(type, N, instruction)                                                        \
	struct sum_of_##N {                                                                        \
		__device__ static unit<16> load(const unit<16> *from)                              \
		{                                                                                  \
			SUM_OF_ALL(N, instruction)                                                 \
		}                                                                                  \
	};                                                                                         \
	KERNEL tt_cuda_multicast_##type(PARAMETER(struct tt_cuda_program, program))                \
	{                                                                                          \
		run<multicasting<sum_of_##N>>(program);                                            \
	}

#endif
