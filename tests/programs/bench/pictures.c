/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of what was measured. */
#include <unistd.h>

#include "claims.h"
#include "runs.h"

static void a_picture_is_drawn(void **state)
{
	static const char *const labels[] = { "width=\"900\"",
					      ">all_reduce<",
					      ">exscan<",
					      ">out of place<",
					      ">in place<",
					      ">median time<",
					      ">bus bandwidth in GB/s<",
					      ">128 B<",
					      ">tutti, 2 ranks, shm, float32, barrier in ",
					      " core",
					      " · tutti 0." };
	static char text[1 << 20];
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.svg";
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	if (system("gnuplot --version >/dev/null 2>&1") != 0) {
		close(fd);
		unlink(path);
		print_message("gnuplot is not installed\n");
		skip();
	}
	snprintf(arguments, sizeof(arguments), "all -b 64 -e 256 -n 1 -w 0 --plot %s", path);
	expect_status(bench(arguments), 0, arguments);
	text[pread(fd, text, sizeof(text) - 1, 0)] = '\0';
	assert_memory_equal(text, "<?xml", 5);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		assert_contains(text, labels[i]);
	assert_int_equal(count_of(text, "<path stroke='rgb(  0, 114, 178)'"),
			 20 + 1); /* out of place; in the legend */
	/* in place */
	assert_int_equal(count_of(text, "<path stroke='rgb(213,  94,   0)'"), 20 + 1);
	close(fd);
	unlink(path);
}

static void a_picture_may_be_a_png_and_one_of_a_barrier_is_refused(void **state)
{
	static const unsigned char signature[] =
		"\211PNG\r\n\032\n\0\0\0\015IHDR\0\0\003\204"; /* 900 wide */
	char arguments[256], path[] = "/tmp/tutti-test-bench-XXXXXX.png",
			     head[sizeof(signature) - 1];
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	snprintf(arguments, sizeof(arguments), "barrier -e 64 --plot %s", path);
	expect_refused(arguments, "no sizes to draw over");
	if (system("gnuplot --version >/dev/null 2>&1") == 0) {
		snprintf(arguments, sizeof(arguments), "latency -b 64 -e 64 -n 1 -w 0 --plot %s",
			 path);
		expect_status(bench(arguments), 0, arguments);
		assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
		assert_memory_equal(head, signature, sizeof(head));
	}
	close(fd);
	unlink(path);
}

int claims_on_pictures(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_picture_is_drawn),
		cmocka_unit_test(a_picture_may_be_a_png_and_one_of_a_barrier_is_refused),
	};

	return cmocka_run_group_tests_name("pictures", tests, NULL, NULL);
}
