/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of any arguments: where they are, and how one is called by what was copied of its
 * arguments. For C, and for C++, which finds out. */
#ifndef STANDIN_KERNEL_H
#define STANDIN_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#define ARGUMENTS_MAX 16 /* of a kernel */

struct standin_kernel {
	void (*function)(void);
	void (*call)(void (*function)(void),
		     const void *const *arguments); /* as one thread of the grid */
	unsigned count;				    /* of arguments */
	size_t bytes[ARGUMENTS_MAX];		    /* of each */
	bool pointer[ARGUMENTS_MAX];		    /* is it one? */
	enum {
		STANDIN_NO_LIBRARY,
		STANDIN_PROGRAM, /* the library's: its argument is a struct tt_cuda_program … */
		STANDIN_POST	 /* … or a struct tt_cuda_post, with pointers inside */
	} library;
};

#ifdef __cplusplus
#define STANDIN_C extern "C" __attribute__((visibility("hidden")))
#else
#define STANDIN_C
#endif

/* Where an argument's successor lies among the copies. */
static inline size_t standin_argument_end(size_t at, size_t bytes)
{
	return at + (bytes + 15) / 16 * 16;
}

/* kernels.cpp or no_kernels.c; called without the lock. */
STANDIN_C bool standin_kernel_named(const char *name, struct standin_kernel *out);
STANDIN_C void standin_kernel_run(const struct standin_kernel *kernel, const unsigned grid[3],
				  const unsigned block[3], const char *arguments);

/* programs.cpp */
STANDIN_C bool standin_program_kernel_named(const char *name, struct standin_kernel *out);

#ifdef __cplusplus
#include <type_traits>
#include <utility>

template <class Signature> struct standin_call;

template <class... A> struct standin_call<void(A...)> {
	template <size_t... I>
	static void spread(void (*function)(A...), const void *const *arguments,
			   std::index_sequence<I...>)
	{
		function(*static_cast<const A *>(arguments[I])...);
	}

	static void call(void (*function)(void), const void *const *arguments)
	{
		spread(reinterpret_cast<void (*)(A...)>(function), arguments,
		       std::index_sequence_for<A...>());
	}

	static standin_kernel kernel(void (*function)(A...))
	{
		static_assert(sizeof...(A) <= ARGUMENTS_MAX, "arguments of a kernel");
		return { reinterpret_cast<void (*)(void)>(function),
			 call,
			 sizeof...(A),
			 { sizeof(A)... },
			 { std::is_pointer<A>::value... },
			 standin_kernel::STANDIN_NO_LIBRARY };
	}
};
#endif

#endif
