/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: classifies samples by a model, of a training or of a checkpoint. */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "output.h"
#include "replace.h"
#include "train.h"

enum { ROWS_MOST = 1024 };

/* Of `count` samples that are standardised, `rows` of data: a label a line, to standard output where `path`
 * is NULL. `right`: how many are those of the data, if these have any; or NULL. */
static bool write_labels(struct model *model, const struct data *data, const uint32_t *rows,
			 size_t count, const char *path, size_t *right)
{
	void *x = malloc(model->rows_max * data->features * model->numbers->size);
	uint32_t *labels = malloc(model->rows_max * sizeof(*labels));
	char *text = NULL;
	size_t length = 0;
	FILE *out = path ? open_memstream(&text, &length) : stdout;
	bool ok = x && labels && out;

	for (size_t done = 0, some; ok && done < count; done += some) {
		some = count - done < model->rows_max ? count - done : model->rows_max;
		model->numbers->gather(x, data->x, data->features, data->features, rows + done,
				       some);
		model_forward(model, x, some);
		model_choose(model, some, labels);
		for (size_t i = 0; i < some; i++) {
			fprintf(out, "%u\n", labels[i]);
			if (right && data->y)
				*right += labels[i] == data->y[rows[done + i]];
		}
	}
	if (path && out) { /* what standard output cannot take is said at the end of the program */
		ok = ok && fflush(out) == 0 && !ferror(out);
		fclose(out);
	}
	ok = ok ? !path || replace_file(path, text, length) : why_no_memory("predictions");
	free(x);
	free(labels);
	free(text);
	return ok;
}

/* ---- of a training */

static int by_row(const void *a, const void *b)
{
	const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

/* Nobody needs their other order any more. */
bool predict_validation(struct training *t)
{
	qsort(t->split.test, t->split.test_rows, sizeof(*t->split.test), by_row);
	return write_labels(&t->model, &t->data, t->split.test, t->split.test_rows,
			    t->options->predict, NULL);
}

/* ---- the command */

/* All samples of `data`, in their order. */
static bool classify(struct checkpoint *c, struct data *data, const char *path)
{
	const struct cut cut = { .layers = c->layers, .of = c->layers };
	struct split split = { 0 };
	struct model model = { 0 };
	size_t right = 0;
	bool ok = split_create(data, 0, 0, &split) &&
		  model_create(c->numbers, c->width, cut, ROWS_MOST, &model);

	standardise_by(data, c->array[MEAN], c->array[FACTOR]);
	model.weights = c->array[WEIGHTS];
	ok = ok && write_labels(&model, data, split.test, data->rows, path, &right);
	if (ok && data->y)
		fprintf(path ? stdout : stderr, "accuracy %.4f (%zu of %zu samples)\n",
			(double)right / (double)data->rows, right, data->rows);
	model_finish(&model);
	split_finish(&split);
	return ok;
}

bool predict(const struct options *o)
{
	const struct named_file files[] = { { "MODEL", o->model },
					    { "--data", o->source.path },
					    { "--labels", o->source.labels },
					    { "standard output", "/dev/stdout" },
					    { "--predict", o->predict } };
	struct checkpoint c = { 0 };
	struct data_source source = o->source;
	struct data data = { 0 };
	bool ok = replace_distinct(files, 3, 5) &&
		  (!o->predict || replace_file(o->predict, NULL, 0)) &&
		  checkpoint_read(o->model, &c);

	source.features = c.width[0];
	if (source.label_column == 0)
		source.label_column =
			(unsigned)json_integer_value(json_object_get(c.options, "label-column"));
	ok = ok && data_read_samples(&source, &data) && classify(&c, &data, o->predict);
	data_finish(&data);
	checkpoint_finish(&c);
	return ok;
}
