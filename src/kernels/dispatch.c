/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the choice of the instruction set: made once, at the first use, and never changed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"
#include "log.h"
#include "nearest.h"

#ifdef TT_KERNELS_X86
#include <cpuid.h>
#endif

#define ISAS_MAX 5

/* What this processor can run, best first; the plain C table is always the last. */
static struct {
	pthread_once_t once;
	const struct tt_kernels *tables[ISAS_MAX];
	unsigned count;
	const struct tt_kernels *chosen;
} isas = { .once = PTHREAD_ONCE_INIT };

static void offer(const struct tt_kernels *table)
{
	isas.tables[isas.count++] = table;
}

#ifdef TT_KERNELS_X86
static bool has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#ifdef TT_KERNELS_AVX512_FP16
/* clang's __builtin_cpu_supports does not know the word. */
static bool has_fp16(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bit_AVX512FP16);
}

static void find_avx512_fp16(void)
{
	static struct tt_kernels avx512_fp16;

	if (has_fp16()) {
		tt_kernels_init_avx512_fp16(&avx512_fp16);
		offer(&avx512_fp16);
	}
}
#else
static void find_avx512_fp16(void)
{
}
#endif

static void find(void)
{
	static struct tt_kernels avx512_bf16;

	__builtin_cpu_init();
	const bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
	const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
			    __builtin_cpu_supports("avx512bw") &&
			    __builtin_cpu_supports("avx512dq") &&
			    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");

	if (avx512 && __builtin_cpu_supports("avx512bf16")) {
		find_avx512_fp16();
		tt_kernels_init_avx512_bf16(&avx512_bf16);
		offer(&avx512_bf16);
	}
	if (avx512)
		offer(&tt_kernels_avx512);
	if (avx2)
		offer(&tt_kernels_avx2);
}
#elif defined(TT_KERNELS_NEON)
static void find(void)
{
	offer(&tt_kernels_neon); /* part of every 64-bit Arm */
}
#else
static void find(void)
{
}
#endif

static const struct tt_kernels *find_named(const char *name)
{
	for (unsigned i = 0; i < isas.count; i++)
		if (strcmp(isas.tables[i]->isa, name) == 0)
			return isas.tables[i];
	return NULL;
}

static const char *const isa_names[] = { "c",		"avx2", "avx512", "avx512_bf16",
					 "avx512_fp16", "neon", NULL };

static void choose(void)
{
	char hint[TT_NEAREST_HINT];
	const char *wanted = getenv("TUTTI_ISA");

	find();
	offer(&tt_kernels_c);
	isas.chosen = isas.tables[0];
	if (wanted && *wanted) {
		const struct tt_kernels *named = find_named(wanted);

		if (named)
			isas.chosen = named;
		else
			tt_log(WARN, KERNEL,
			       "TUTTI_ISA is \"%s\"%s, which this build or processor does not "
			       "have: %s is used; expected one of c, avx2, avx512, avx512_bf16, "
			       "avx512_fp16, neon",
			       wanted, tt_did_you_mean(wanted, isa_names, hint), isas.chosen->isa);
	}
	tt_log(DEBUG, KERNEL, "kernels use %s", isas.chosen->isa);
}

const struct tt_kernels *tt_kernels(void)
{
	pthread_once(&isas.once, choose);
	return isas.chosen;
}

const struct tt_kernels *tt_kernels_by_isa(const char *isa)
{
	pthread_once(&isas.once, choose);
	return find_named(isa);
}

TUTTI_API const char *tutti_kernel_isa(void)
{
	return tt_kernels()->isa;
}
