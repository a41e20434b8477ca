/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: copy_stream() for an instruction set with stores that bypass the cache. The including
 * file has defined VEC_BYTES, load_vec(), and stream_vec(), a store that needs alignment. */

/* Below this, waiting for the stores at the fence costs more than the cache lines kept. */
#define STREAM_MIN ((size_t)16 << 10)

static void copy_stream(void *dst, const void *src, size_t bytes)
{
	const size_t head = -(uintptr_t)dst % VEC_BYTES;
	const char *from = src;
	char *to = dst;
	size_t i = head;

	if (bytes < STREAM_MIN) {
		if (bytes > 0)
			memcpy(dst, src, bytes);
		return;
	}
	memcpy(to, from, head);
	for (; i + 4 * VEC_BYTES <= bytes; i += 4 * VEC_BYTES) {
		const vec v0 = load_vec(from + i), v1 = load_vec(from + i + VEC_BYTES);
		const vec v2 = load_vec(from + i + 2 * VEC_BYTES);
		const vec v3 = load_vec(from + i + 3 * VEC_BYTES);

		stream_vec(to + i, v0);
		stream_vec(to + i + VEC_BYTES, v1);
		stream_vec(to + i + 2 * VEC_BYTES, v2);
		stream_vec(to + i + 3 * VEC_BYTES, v3);
	}
	memcpy(to + i, from + i, bytes - i);
	/* orders these stores before all later ones, as plain stores are: who publishes the copy by
	 * an atomic store need not know how it was made */
	_mm_sfence();
}
