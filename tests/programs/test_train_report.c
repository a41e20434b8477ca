/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-train says on standard output while it trains. The clock is the real one: a training of
 * some time is one that is said to have begun before. */
#include "tests.h"

#include <math.h>
#include <string.h>

#include "report.h"
#include "train_files.h"

/* What stands on standard output after `show`. */
static const char *shown_by(void (*show)(struct report *), struct report *report)
{
	static char text[4096];
	FILE *file = fopen(path_of("out"), "w+");
	const int out = dup(STDOUT_FILENO);
	size_t length;

	assert_non_null(file);
	assert_true(fflush(stdout) == 0 && out >= 0);
	dup2(fileno(file), STDOUT_FILENO);
	show(report);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
	unlink(path_of("out"));
	return text;
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("expected '%s' in: %s", part, text);
}

static void end_of_an_epoch(struct report *report)
{
	const struct epoch epoch = { .number = report->history.epoch_count + 1,
				     .train_loss = 0.25,
				     .test_accuracy = 0.5,
				     .seconds = 3 };
	struct why why;

	assert_int_equal(report_epoch(report, &epoch, &why), TUTTI_OK);
}

static void first_step_of_the_second_half(struct report *report)
{
	report_step(report, report->options->epochs / 2, 0, 1000);
}

/* A report to a terminal, or elsewhere, of a training that goes on behind `done` for `seconds` now.
 * Estimates are rounded up: those below have most of a second until they change. */
static struct report begin(const struct options *options, bool bar, double done, double seconds)
{
	struct report report;
	struct why why;

	assert_int_equal(report_create(options, &report, &why), TUTTI_OK);
	report.on = report.text.start = true;
	report.bar = bar;
	report_begin(&report, done);
	report.begun_s -= seconds;
	return report;
}

TEST(the_line_of_an_epoch_tells_the_time_left)
{
	static const struct {
		unsigned epochs;
		double seconds;
		const char *end;
	} cases[] = {
		{ 2, 8.05, "  3.00 s, 0:09 left\n" },
		{ 2, 74.05, "  3.00 s, 1:15 left\n" },
		{ 2, 3659.05, "  3.00 s, 1:01:00 left\n" },
		{ 100000, 36000, "  3.00 s, 277777:46:40 left\n" },
		{ 1, 5, "  3.00 s\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct options options = { .epochs = cases[i].epochs };
		struct report report = begin(&options, false, 0, cases[i].seconds);

		expect(shown_by(end_of_an_epoch, &report), cases[i].end);
		report_finish(&report);
	}
}

/* Nor those before a loss. */
TEST(steps_before_a_resume_do_not_count_as_speed)
{
	const struct options options = { .epochs = 92 };
	struct report report = begin(&options, false, 90 / 92.0, 8.05);

	report.text.epochs = report.history.epoch_count = 90;
	expect(shown_by(end_of_an_epoch, &report), "s, 0:09 left\n");
	report_finish(&report);
}

/* As when ranks were lost behind it, before it was shown. */
TEST(an_epoch_that_was_done_before_tells_no_time)
{
	const struct options options = { .epochs = 100 };
	struct report report = begin(&options, false, 0.9, 10);

	report.text.epochs = report.history.epoch_count = 80;
	expect(shown_by(end_of_an_epoch, &report), "  3.00 s\n");
	report_finish(&report);
}

TEST(the_bar_tells_the_time_left_after_a_second)
{
	const struct options options = { .epochs = 10 };
	struct report report = begin(&options, true, 0, 19.05);
	const char *text = shown_by(first_step_of_the_second_half, &report);

	expect(text, "\r[#######       ]  50 %  0:20 left");
	report_finish(&report);
	report = begin(&options, true, 0, 0.05);
	text = shown_by(first_step_of_the_second_half, &report);
	expect(text, " 50 %");
	assert_null(strstr(text, "left"));
	report_finish(&report);
}

/* A longer one would wrap, and be drawn below itself. */
TEST(the_bar_fits_into_80_columns)
{
	const struct options options = { .epochs = 99 };
	struct report report = begin(&options, true, 0, 98 * 3600 + 50);
	const char *text, *end;

	for (int e = 0; e < 97; e++)
		shown_by(end_of_an_epoch, &report);
	text = shown_by(end_of_an_epoch, &report);
	expect(text, "  epoch 98  loss 0.2500  accuracy 0.5000  1:00:01 left");
	end = strstr(text, "\033[K");
	assert_true(end && end - text < 80);
	report_finish(&report);
}

int main(void)
{
	return run_claims(make_directory, remove_directory);
}
