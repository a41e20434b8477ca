/* SPDX-License-Identifier: BSD-3-Clause */
/* The time left that tutti-train tells. The clock is the real one: a training of some time is one
 * that is said to have begun before. Estimates are rounded up: those below have most of a second
 * until they change. */
#include "tests.h"

#include <string.h>

#include "report.h"

struct scene {
	unsigned epochs, before; /* those that were done are not shown again */
	double done, seconds;	 /* it goes on behind `done` for so long now */
	bool bar;		 /* to a terminal */
	const char *expected;
};

/* What comes to standard output of an epoch that ends, or of the first step of the second half. */
static const char *shown(const struct scene *s, bool step)
{
	static char text[4096];
	const struct epoch epoch = {
		.number = s->before + 1, .train_loss = 0.25, .test_accuracy = 0.5, .seconds = 3
	};
	const struct options options = { .epochs = s->epochs };
	struct report report;
	FILE *const usual = stdout;

	assert_true(report_create(&options, &report));
	report.on = report.printed.start = true;
	report.bar = s->bar;
	report.printed.epochs = report.history.epoch_count = s->before;
	report_begin(&report, s->done);
	report.begun_s -= s->seconds;
	stdout = fmemopen(text, sizeof(text), "w");
	assert_non_null(stdout);
	if (step)
		report_step(&report, s->epochs / 2, 0, 1000);
	else
		report_epoch(&report, &epoch);
	fclose(stdout);
	stdout = usual;
	report.bar_open = false;
	report_finish(&report);
	return text;
}

static void expect(const struct scene *s, bool step)
{
	assert_says(shown(s, step), s->expected);
}

TEST(the_line_of_an_epoch_tells_the_time_left)
{
	static const struct scene scenes[] = {
		{ 2, .seconds = 8.05, .expected = "  3.00 s, 0:09 left\n" },
		{ 2, .seconds = 74.05, .expected = "  3.00 s, 1:15 left\n" },
		{ 2, .seconds = 3659.05, .expected = "  3.00 s, 1:01:00 left\n" },
		{ 100000, .seconds = 36000, .expected = "  3.00 s, 277777:46:40 left\n" },
		{ 1, .seconds = 5, .expected = "  3.00 s\n" },
	};

	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		expect(&scenes[i], false);
}

/* Nor those before a loss. */
TEST(steps_before_a_resume_do_not_count_as_speed)
{
	expect(&(struct scene){ 92, 90, 90 / 92.0, 8.05, false, "s, 0:09 left\n" }, false);
}

/* As when ranks were lost behind it, before it was shown. */
TEST(an_epoch_that_was_done_before_tells_no_time)
{
	expect(&(struct scene){ 100, 80, 0.9, 10, false, "  3.00 s\n" }, false);
}

TEST(the_bar_tells_the_time_left_after_a_second)
{
	struct scene s = { 10, .seconds = 19.05, .bar = true,
			   .expected = "\r[#####     ]  50 %  0:20 left" };

	expect(&s, true);
	s.seconds = 0.05;
	s.expected = " 50 %\033";
	expect(&s, true);
}

/* A longer one would wrap, and be drawn below itself. */
TEST(the_bar_fits_into_80_columns)
{
	const struct scene s = { 99, 97, .seconds = 98 * 3600 + 50, .bar = true };
	const char *text = shown(&s, false), *end = strstr(text, "\033[K");

	assert_says(text, "  epoch 98  loss 0.2500  test accuracy 0.5000  1:00:01 left");
	assert_true(end && end - text < 80);
}
