/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels need of a compiler: CUDA's, or a C++ compiler for the stand-in of the driver. */
#ifndef TT_CUDA_COMPILER_CUH
#define TT_CUDA_COMPILER_CUH

#include <stdint.h>
#include <string.h>

#include "kernels.h"

#define DEVICE static inline __device__

#ifdef __CUDACC__
#define KERNEL		      extern "C" __global__ void __launch_bounds__(TT_CUDA_THREADS, 1)
#define PARAMETER(type, name) const __grid_constant__ type name /* read where it lies */
/* One for all kernels: what moves many bytes, or is seldom come to. What every kernel comes to is part
 * of each: of an all_reduce of 8 bytes calls were 1.2 µs of 6.9 (two ranks, H100). */
#define SHARED	  __device__ __noinline__
#define UNROLL	  _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#else
#define KERNEL		      extern "C" __global__ void
#define PARAMETER(type, name) type name
#define SHARED		      static __noinline__
#define UNROLL
#define NO_UNROLL
#endif

#ifdef __CUDA_ARCH__
#define ARCH __CUDA_ARCH__
#else
#define ARCH 0
#endif

/* Data, which others see once it has been ordered: by a fence and what is shown behind it, or by the
 * kernel's end. The stand-in keeps it back until then. */
template <class T> DEVICE void store(T *to, const T &value)
{
#ifdef __CUDACC__
	*to = value;
#else
	standin_store(to, &value, sizeof(value));
#endif
}

/* Memory that several GPUs, or a GPU and the host, read and write while kernels run. */

/* What the writer stored before it is seen by what this thread, and by a barrier its block, loads
 * from now on. */
DEVICE uint32_t load_acquire(const uint32_t *word)
{
#if ARCH
	uint32_t value;

	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* Of both halves of a line, each as one. */
DEVICE struct tt_cuda_line load_line(const struct tt_cuda_line *line)
{
	struct tt_cuda_line value;

#if ARCH
	asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(value.low), "=r"(value.number), "=r"(value.high), "=r"(value.again)
		     : "l"(line)
		     : "memory");
#else
	const uint64_t halves[2] = { __atomic_load_n((const uint64_t *)line, __ATOMIC_ACQUIRE),
				     __atomic_load_n((const uint64_t *)line + 1,
						     __ATOMIC_ACQUIRE) };

	memcpy(&value, halves, sizeof(value));
#endif
	return value;
}

DEVICE void store_line(struct tt_cuda_line *line, uint64_t data, uint32_t number)
{
	const uint32_t low = (uint32_t)data, high = (uint32_t)(data >> 32);

#if ARCH
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(line), "r"(low), "r"(number), "r"(high), "r"(number)
		     : "memory");
#else
	__atomic_store_n((uint64_t *)line, (uint64_t)number << 32 | low, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)line + 1, (uint64_t)number << 32 | high, __ATOMIC_RELEASE);
#endif
}

/* What this thread has seen and stored before is seen by the blocks that add later, of one GPU. */
DEVICE uint32_t add_one(uint32_t *word)
{
#if ARCH
	uint32_t before;

	asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
		     : "=r"(before)
		     : "l"(word)
		     : "memory");
	return before;
#else
	__threadfence();
	return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
#endif
}

/* A word that is looked at now and then, or that others do. */
template <class T> DEVICE T glance(const T *word)
{
#if ARCH
	return *(const volatile T *)word;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

template <class T> DEVICE void show(T *word, uint64_t value)
{
#if ARCH
	*(volatile T *)word = (T)value;
#else
	__atomic_store_n(word, (T)value, __ATOMIC_RELEASE);
#endif
}

DEVICE uint64_t nanoseconds(void)
{
#if ARCH
	uint64_t now;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	return now;
#elif defined(__CUDACC__)
	return 0; /* the host's part of what that compiles */
#else
	return standin_nanoseconds();
#endif
}

#define SPINS_EAGER 64 /* before a thread that waits leaves others more of the multiprocessor */

DEVICE void pause_briefly(uint32_t spins)
{
#if ARCH >= 700
	if (spins > SPINS_EAGER)
		__nanosleep(32);
#elif !defined(__CUDACC__)
	standin_pause(spins);
#endif
}

#endif
