/* SPDX-License-Identifier: BSD-3-Clause */
/* What of CUDA C++ the kernels use, for a host's C++ compiler. kernels.cpp says how threads run. */
#ifndef STANDIN_CUDA_SHIM_H
#define STANDIN_CUDA_SHIM_H

#include <stdint.h>

#define __global__ __attribute__((visibility("default"), section("standin_kernels")))
#define __device__
#define __shared__   static thread_local
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

struct standin_place {
	unsigned x, y, z;
};
inline thread_local standin_place threadIdx, blockIdx, blockDim, gridDim;

/* Until all threads of the block have come so far. kernels.cpp */
void standin_barrier(void);
/* A thread has looked `looks` times for what others bring about. */
void standin_pause(unsigned looks);
uint64_t standin_nanoseconds(void);

static inline void __syncthreads()
{
	standin_barrier();
}

/* Is it so for all threads of the block? */
static inline int __syncthreads_and(int own)
{
	static thread_local int all = 1;

	all &= own != 0;
	standin_barrier();
	const int result = all;

	standin_barrier();
	all = 1;
	standin_barrier();
	return result;
}

/* What a block stores is seen by nobody before its next fence. kernels.cpp */
void standin_store(void *to, const void *value, unsigned bytes);
void standin_fence(const char *function);
/* What a multicast address stands for: so many places. multicast.c */
extern "C" unsigned standin_multicast(const void *address, void **out);
/* Where that is which a rank has told. memory.c */
extern "C" void *standin_told(const void *address);

#define __threadfence()	       standin_fence(__func__)
#define __threadfence_system() standin_fence(__func__)

static inline unsigned atomicAdd(unsigned *to, unsigned more)
{
	return __atomic_fetch_add(to, more, __ATOMIC_SEQ_CST);
}

static inline unsigned long long atomicAdd(unsigned long long *to, unsigned long long more)
{
	return __atomic_fetch_add(to, more, __ATOMIC_SEQ_CST);
}

static inline unsigned long atomicAdd(unsigned long *to,
				      unsigned long more) /* uint64_t, of many hosts */
{
	return __atomic_fetch_add(to, more, __ATOMIC_SEQ_CST);
}

static inline unsigned atomicExch(unsigned *to, unsigned value)
{
	return __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST);
}

static inline unsigned long long atomicMin(unsigned long long *to, unsigned long long other)
{
	unsigned long long seen = __atomic_load_n(to, __ATOMIC_SEQ_CST);

	while (other < seen && !__atomic_compare_exchange_n(to, &seen, other, false,
							    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return seen;
}

static inline float __uint_as_float(unsigned bits)
{
	float value;

	__builtin_memcpy(&value, &bits, sizeof(value));
	return value;
}

#endif
