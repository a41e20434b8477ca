/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: classifies samples by a model, of a training or of a checkpoint. */
#include "predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "output.h"
#include "replace.h"

enum { LINE_MOST = 12 /* bytes of a label and the end of its line */, ROWS_MOST = 1024 };

static bool choose(struct model *model, const struct data *data, const uint32_t *rows, size_t count,
		   uint32_t *labels)
{
	void *x = malloc(model->rows_max * data->features * model->numbers->size);

	for (size_t done = 0, some; x && done < count; done += some) {
		some = count - done < model->rows_max ? count - done : model->rows_max;
		model->numbers->gather(x, data->x, data->features, data->features, rows + done,
				       some);
		model_forward(model, x, some);
		model_choose(model, some, labels + done);
	}
	free(x);
	return x || why_no_memory("samples");
}

static bool put(const char *path, const char *text, size_t length)
{
	if (path)
		return replace_file(path, text, length);
	fwrite(text, 1, length, stdout); /* whose end says whether that went well */
	return true;
}

bool predict_write(struct model *model, const struct data *data, const uint32_t *rows, size_t count,
		   const char *path, size_t *right)
{
	uint32_t *labels = malloc(count * sizeof(*labels) + 1);
	char *text = malloc(count * LINE_MOST + 1);
	bool ok = labels && text ? choose(model, data, rows, count, labels)
				 : why_no_memory("predictions");
	size_t used = 0;

	for (size_t i = 0; i < count && ok; i++) {
		used += (size_t)snprintf(text + used, LINE_MOST, "%u\n", labels[i]);
		if (right && data->y)
			*right += labels[i] == data->y[rows[i]];
	}
	ok = ok && put(path, text, used);
	free(labels);
	free(text);
	return ok;
}

/* ---- the command */

/* All samples of `data`, in their order. */
static bool classify(struct checkpoint *c, struct data *data, const char *path)
{
	uint32_t *rows = malloc(data->rows * sizeof(*rows));
	struct model model = { 0 };
	size_t right = 0;
	bool ok = rows ? model_create(c->numbers, c->width,
				      (struct cut){ .layers = c->layers, .of = c->layers },
				      ROWS_MOST, &model)
		       : why_no_memory("samples");

	for (size_t i = 0; rows && i < data->rows; i++)
		rows[i] = (uint32_t)i;
	data->mean = c->array[MEAN];
	data->inverse = c->array[FACTOR];
	standardise_by(data);
	data->mean = data->inverse = NULL;
	model.weights = c->array[WEIGHTS];
	ok = ok && predict_write(&model, data, rows, data->rows, path, &right);
	if (ok && data->y)
		fprintf(path ? stdout : stderr, "accuracy %.4f (%zu of %zu samples)\n",
			(double)right / (double)data->rows, right, data->rows);
	model_finish(&model);
	free(rows);
	return ok;
}

static bool predict(const char *path, const struct options *o)
{
	const struct named_file files[] = { { "MODEL", path },
					    { "--data", o->source.path },
					    { "--labels", o->source.labels },
					    { "--predict", o->predict } };
	struct checkpoint c = { 0 };
	struct data_source source = o->source;
	struct data data = { 0 };
	bool ok = replace_distinct(files, 3, 4);

	if (ok && o->predict)
		ok = replace_file(o->predict, NULL, 0);
	ok = ok && checkpoint_read(path, &c);
	source.features = c.width[0];
	if (source.label_column == 0)
		source.label_column =
			(unsigned)json_integer_value(json_object_get(c.options, "label-column"));
	ok = ok && data_read_samples(&source, &data) && classify(&c, &data, o->predict);
	data_finish(&data);
	checkpoint_finish(&c);
	return ok;
}

/* The other options are those of a training. */
static bool check_options(int argc, char **argv)
{
	static const char *const known[] = { "data",	   "labels",  "label-column",
					     "data-limit", "predict", "help",
					     NULL };

	if (argc < 2 ||
	    (argv[1][0] == '-' && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0))
		return why_set(
			TUTTI_ERR_INVALID,
			"found %s, expected tutti-train predict MODEL --data FILE, where MODEL "
			"is a file that --save wrote; see --help",
			argc < 2 ? "no model" : argv[1]);
	for (int i = 1; i < argc; i++) {
		const size_t length = strcspn(argv[i], "=");
		int k = 0;

		while (known[k] && (length != strlen(known[k]) + 2 ||
				    strncmp(argv[i] + 2, known[k], length - 2) != 0))
			k++;
		if (strncmp(argv[i], "--", 2) == 0 && !known[k])
			return why_set(TUTTI_ERR_INVALID,
				       "found %.*s with predict, expected --data, --labels, "
				       "--label-column, --data-limit or --predict; leave it out",
				       (int)length, argv[i]);
	}
	return true;
}

int predict_main(int argc, char **argv)
{
	struct options options;
	enum options_outcome outcome = OPTIONS_WRONG;
	bool ok = check_options(argc, argv);

	if (ok)
		outcome = options_parse(argc - (argv[1][0] != '-'), argv + (argv[1][0] != '-'),
					&options);
	if (outcome == OPTIONS_RUN)
		ok = predict(argv[1], &options);
	if (!ok || outcome == OPTIONS_WRONG)
		fprintf(stderr, "tutti-train: %s\n", why.text);
	return outcome == OPTIONS_WRONG ? 2 : !ok;
}
