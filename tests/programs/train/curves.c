/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how tutti-train is run, and how its log is read. */
#include "curves.h"

#include <sys/wait.h>
#include <unistd.h>

static char directory[32];
const char *digits, *device;
char output[OUTPUT_BYTES];

int shell(const char *format, ...)
{
	char line[2048];
	size_t length = 0, got;
	va_list args;
	FILE *pipe;
	int used, status;

	used = snprintf(line, sizeof(line), "cd %s && { ", directory);
	va_start(args, format);
	used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	snprintf(line + used, sizeof(line) - (size_t)used, "; } 2>&1");
	pipe = popen(line, "r");
	assert_non_null(pipe);
	while ((got = fread(output + length, 1, sizeof(output) - 1 - length, pipe)) > 0)
		length += got;
	output[length] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int train(int ranks, const char *options)
{
	return shell("timeout 170 \"$TEST_RUN\" -n %d -- \"$TEST_TRAIN\" --device %s %s", ranks,
		     device, options);
}

void expect_output(const char *error_text)
{
	if (!strstr(output, error_text))
		fail_msg("expected '%s' in:\n%s", error_text, output);
}

void expect_success(int status)
{
	if (status != 0)
		fail_msg("exit status %d:\n%s", status, output);
}

/* ---- the JSON log */

double real_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

static void take_line(const char *line, struct curve *curve)
{
	json_error_t error;
	json_t *object = json_loads(line, 0, &error);
	const char *event;

	if (!object)
		fail_msg("not JSON: %s", line);
	event = json_string_value(json_object_get(object, "event"));
	assert_non_null(event);
	if (strcmp(event, "start") == 0) {
		assert_int_equal(curve->epochs, 0);
		assert_non_null(json_object_get(object, "device"));
		curve->ranks = (int)real_of(object, "ranks");
		curve->samples = real_of(object, "train_samples");
		curve->parameters = real_of(object, "parameters");
	} else if (strcmp(event, "epoch") == 0) {
		assert_true(curve->epochs < EPOCHS_MAX);
		assert_int_equal(real_of(object, "epoch"), curve->epochs + 1);
		curve->train[curve->epochs] = real_of(object, "train_loss");
		curve->hits[curve->epochs] = real_of(object, "train_accuracy") * curve->samples;
		curve->least_share[curve->epochs] = real_of(object, "least_share");
		curve->test[curve->epochs++] = real_of(object, "test_loss");
	} else {
		assert_string_equal(event, "end");
		curve->accuracy = real_of(object, "test_accuracy");
		curve->blocked = real_of(object, "blocked_share");
		curve->steps = real_of(object, "steps");
		curve->sent = real_of(object, "sent_bytes");
		snprintf(curve->weights, sizeof(curve->weights), "%s",
			 json_string_value(json_array_get(json_object_get(object, "weights"), 0)));
		assert_true(real_of(object, "seconds") > 0);
		assert_true(real_of(object, "samples_per_s") > 0);
	}
	json_decref(object);
}

FILE *open_log(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/log", directory);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	return file;
}

struct curve read_curve(void)
{
	struct curve curve = { .accuracy = -1 };
	FILE *file = open_log();
	char line[4096];

	while (fgets(line, sizeof(line), file))
		take_line(line, &curve);
	fclose(file);
	assert_true(curve.ranks > 0 && curve.epochs > 0 && curve.accuracy >= 0);
	return curve;
}

struct curve train_digits(int ranks, const char *options)
{
	char line[512];

	snprintf(line, sizeof(line), "--data %s --json log %s", digits, options);
	expect_success(train(ranks, line));
	return read_curve();
}

void train_until_killed(int ranks, const char *data, const char *options)
{
	expect_success(
		shell("\"$TEST_RUN\" -n %d -- \"$TEST_TRAIN\" --data %s %s >/dev/null 2>&1 & "
		      "p=$!; until [ -e ck ]; do kill -0 $p || exit 1; sleep 0.01; done; "
		      "kill $p; wait $p; true",
		      ranks, data, options));
}

void assert_close(double a, double b)
{
	if (!(fabs(a - b) <= 1e-4 * fabs(a)))
		fail_msg("found %.9g and %.9g, expected less than 1e-4 between them", a, b);
}

int prepare(void **state)
{
	device = getenv("TRAIN_DEVICE");
	device = device ? device : "host";
	digits = getenv("DIGITS");
	strcpy(directory, "/tmp/tutti-train-XXXXXX"); /* each group's own */
	return digits && getenv("TEST_RUN") && getenv("TEST_TRAIN") && mkdtemp(directory) ? 0 : -1;
}

int clean_up(void **state)
{
	shell("rm -f log data ck ck.*.tmp");
	return rmdir(directory);
}

/* ---- what several claims say */

void expect_equal_curves(const struct curve *one, const struct curve *other, double most)
{
	assert_int_equal(one->epochs, other->epochs);
	for (int e = 0; e < one->epochs; e++)
		if (!(fabs(one->train[e] - other->train[e]) <= most * one->train[e]) ||
		    !(fabs(one->test[e] - other->test[e]) <= most * one->test[e]))
			fail_msg("epoch %d: found losses %.12g and %.12g, expected %.12g and %.12g",
				 e + 1, other->train[e], other->test[e], one->train[e],
				 one->test[e]);
}

int least_ranks(const char *way)
{
	return strstr(way, "--shares") ? 4 : strstr(way, "ps") ? 2 : 1;
}

void expect_resumed(const char *way)
{
	char options[160];
	const int used = snprintf(options, sizeof(options), "--epochs 60 %s", way);
	const struct curve whole = train_digits(2, options);

	snprintf(options + used, sizeof(options) - (size_t)used,
		 " --save ck --every-epochs 3 --resume");
	train_until_killed(2, digits, options);
	const struct curve resumed = train_digits(2, options);

	expect_output("resumed after epoch ");
	assert_string_equal(whole.weights, resumed.weights);
	assert_memory_equal(whole.train, resumed.train, 60 * sizeof(double));
}

void refuse_to_resume(const char *options, const char *text)
{
	char line[160];

	snprintf(line, sizeof(line), "--data %s --epochs 60 --save ck --resume %s", digits,
		 options);
	assert_int_equal(train(2, line), 1);
	expect_output(text);
	assert_int_equal(shell("rm ck; rm -f ck.*.tmp"), 0);
}

struct range range_of(const char *key)
{
	struct range range = { INFINITY, -INFINITY };

	expect_success(shell("tail -n 1 log | grep -o '\"%s\":[0-9]*' | cut -d : -f 2", key));
	for (const char *line = output; *line; line = strchr(line, '\n') + 1) {
		range.least = fmin(range.least, atof(line));
		range.most = fmax(range.most, atof(line));
	}
	assert_true(range.least > 0 && range.least <= range.most);
	return range;
}

void refuses(int ranks, const char *options, const char *error_text)
{
	const int status = train(ranks, options);

	expect_output(error_text);
	assert_true(status != 0 && status != 124);
}

void refuses_unequal(const char *options, const char *error_text)
{
	const int status =
		shell("timeout 170 \"$TEST_RUN\" -n 3 -- sh -c '%s' sh \"$TEST_TRAIN\"", options);

	expect_output(error_text);
	assert_true(status != 0 && status != 124);
}
