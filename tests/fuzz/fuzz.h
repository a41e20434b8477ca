/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzers share. FUZZ(name) { … } is one: it hands `data` from outside to the function
 * that parses it, and stops the program where what comes back breaks that function's promise. Each
 * is a program of its own with libfuzzer.c, so that libFuzzer keeps what it finds for each; seeds.c
 * gives all of them what is known already. */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ(name)                                                                                 \
	void fuzzer_##name(const uint8_t *data, size_t size);                                      \
	void fuzzer_##name(const uint8_t *data, size_t size)

/* A promise that must hold whatever the input; not an assert(), which a release build leaves
 * out. */
#define FUZZ_PROMISE(condition)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* What the functions say on standard error of each of a million inputs is not wanted. */
void fuzz_be_quiet(void);

/* An input that is read piece by piece. */
struct fuzz_in {
	const uint8_t *at;
	size_t left;
};
/* The next bytes, and zeros behind the last; how many there were. */
size_t fuzz_take(struct fuzz_in *in, void *out, size_t bytes);
/* As many as there are of the next `bytes`, as an input of their own. */
struct fuzz_in fuzz_cut(struct fuzz_in *in, size_t bytes);

/* A list of pieces: who:1 length:1 bytes. The last may be shorter than it says. */
struct fuzz_piece {
	uint8_t who, said;
	const uint8_t *bytes;
	size_t length;
};
bool fuzz_next(struct fuzz_in *in, struct fuzz_piece *out);

/* Memory of exactly that length, so that a read beyond is caught; free() ends it. */
void *fuzz_copy(const uint8_t *data, size_t size);
/* The same with a zero behind it, which `size` does not count. */
char *fuzz_text(const uint8_t *data, size_t size);
/* The path of a file with that content, which only this user can use, until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* A text that ends within `capacity`, and has nothing for a terminal to act on. */
void fuzz_promise_text(const char *text, size_t capacity);

/* Descriptors that are open: as many before and after, or one was left so. */
int fuzz_descriptors(void);

#endif
