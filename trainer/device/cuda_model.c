/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the model's memory on the GPU. What needs a sum over samples (biases, losses) is a
 * product with a vector of ones, so that it is cuBLAS's. */
#include "cuda_model.h"

#include <stdlib.h>
#include <string.h>

#define LINE 256 /* bytes: where arrays begin */

#ifdef TRAIN_CUDA_IMAGE /* which build_image makes where CUDA's compiler is */
extern const char train_cuda_image[], train_cuda_image_codes[];
#else
static const char train_cuda_image[] = "", train_cuda_image_codes[] = "";
#endif

static const char *const names[KERNELS] = {
	[KERNEL_GATHER] = "train_gather", [KERNEL_BIAS] = "train_bias",
	[KERNEL_RELU] = "train_relu",	  [KERNEL_CLOSE] = "train_close",
	[KERNEL_LOSS] = "train_loss",	  [KERNEL_UPDATE] = "train_update",
	[KERNEL_COUNT] = "train_count",
};

/* ---- the first failure is kept */

static void keep(struct cuda_model *m, bool done)
{
	if (!done && !m->failed)
		m->failed = !why_set(TUTTI_ERR_SYSTEM, "the GPU failed: %s", gpu_error());
}

static void run(struct cuda_model *m, enum cuda_kernel kernel, size_t count, void **arguments)
{
	if (!m->failed)
		keep(m, gpu_run(m->kernel[kernel], count, arguments, m->stream));
}

static void multiply(struct cuda_model *m, size_t rows, size_t columns, size_t terms,
		     struct matrix a, struct matrix b, double keep_c, double *c)
{
	m->failed = m->failed || !cublas_multiply(m->cublas, rows, columns, terms, a, b, keep_c, c);
}

void cuda_model_copy(struct cuda_model *m, void *to, const void *from, size_t bytes)
{
	if (!m->failed)
		keep(m, gpu_copy(to, from, bytes, m->stream));
}

static void clear(struct cuda_model *m, double *numbers, size_t count)
{
	if (!m->failed)
		keep(m, gpu_fill(numbers, 0, count * sizeof(*numbers), m->stream));
}

/* ---- memory */

/* The next `bytes` of the model's memory; while there is none yet, `*used` only counts. */
static void *part(struct cuda_model *m, size_t *used, size_t bytes)
{
	char *const at = m->memory ? m->memory + *used : NULL;

	*used += (bytes + LINE - 1) / LINE * LINE;
	return at;
}

/* How many bytes all are. */
static size_t lay_out(struct cuda_model *m, const struct data *data, const struct split *split)
{
	const struct model *model = &m->layout;
	const size_t rows = model->rows_max, number = sizeof(double);
	size_t used = 0;

	m->state = part(m, &used, (2 * model->parameters + SUMS_NUMBERS) * number);
	m->validated = part(m, &used, SUMS_NUMBERS * number);
	for (unsigned l = 0; l < model->layers; l++) {
		m->output[l] = part(m, &used, rows * model->layer[l].shape.out * number);
		m->delta[l] = part(m, &used, rows * model->layer[l].shape.out * number);
	}
	m->ones = part(m, &used, rows * number);
	m->terms = part(m, &used, SUMS_NUMBERS * rows * number);
	m->x = part(m, &used, rows * data->features * number);
	m->y = part(m, &used, rows * sizeof(*m->y));
	m->data_x = part(m, &used, data->rows * data->features * sizeof(*m->data_x));
	m->data_y = part(m, &used, data->rows * sizeof(*m->data_y));
	m->order = part(m, &used, split->train_rows * sizeof(*m->order));
	m->test = part(m, &used, split->test_rows * sizeof(*m->test));
	return used;
}

static bool fill(struct cuda_model *m, const struct data *data, const struct split *split)
{
	const size_t rows = m->layout.rows_max;
	double *ones = malloc(rows * sizeof(*ones));

	if (!ones)
		return why_no_memory("the model");
	for (size_t i = 0; i < rows; i++)
		ones[i] = 1;
	cuda_model_copy(m, m->ones, ones, rows * sizeof(*ones));
	cuda_model_copy(m, m->data_x, data->x, data->rows * data->features * sizeof(*data->x));
	cuda_model_copy(m, m->data_y, data->y, data->rows * sizeof(*data->y));
	cuda_model_copy(m, m->test, split->test, split->test_rows * sizeof(*split->test));
	keep(m, gpu_finish(m->stream));
	free(ones);
	return !m->failed;
}

static bool take_memory(struct cuda_model *m, const struct data *data, const struct split *split)
{
	const size_t bytes = lay_out(m, data, split);

	m->memory = gpu_alloc(bytes);
	if (!m->memory)
		return why_set(
			TUTTI_ERR_NO_MEMORY,
			"--device cuda: the GPU has no %zu bytes for the model, %zu samples at a time and all %zu of the data: %s; use a smaller --hidden or "
			"--batch, or less data",
			bytes, m->layout.rows_max, data->rows, gpu_error());
	lay_out(m, data, split);
	return fill(m, data, split);
}

static bool find_kernels(struct cuda_model *m)
{
	static const struct gpu_image image = { "tutti-train", train_cuda_image,
						train_cuda_image_codes, "TUTTI_TRAIN_KERNELS" };
	bool unread;

	m->module = gpu_module(&image, &unread);
	for (int i = 0; i < KERNELS; i++) {
		m->kernel[i] = m->module ? gpu_kernel(m->module, names[i]) : NULL;
		if (!m->kernel[i])
			return why_set(unread ? TUTTI_ERR_INVALID : TUTTI_ERR_UNSUPPORTED,
				       "--device cuda: %s", gpu_error());
	}
	return true;
}

bool cuda_model_create(const struct model *layout, const struct data *data,
		       const struct split *split, struct cuda_model *out)
{
	*out = (struct cuda_model){ .layout = *layout };
	if (!find_kernels(out))
		return false;
	out->stream = gpu_stream();
	if (!out->stream)
		return why_set(TUTTI_ERR_SYSTEM, "--device cuda: no stream can be had: %s",
			       gpu_error());
	return cublas_create(out->stream, &out->cublas) && take_memory(out, data, split);
}

void cuda_model_finish(struct cuda_model *m)
{
	cublas_free(m->cublas);
	if (m->memory)
		gpu_free(m->memory);
	if (m->stream)
		gpu_stream_free(m->stream);
	if (m->module)
		gpu_module_free(m->module);
	*m = (struct cuda_model){ 0 };
}

/* ---- the passes, as in model.c */

void cuda_model_gather(struct cuda_model *m, const struct data *data, const uint32_t *rows,
		       size_t count)
{
	size_t features = data->features;

	run(m, KERNEL_GATHER, count * features,
	    (void *[]){ &m->data_x, &m->data_y, &rows, &count, &features, &m->x, &m->y });
}

static struct matrix of(const double *numbers, size_t width)
{
	return (struct matrix){ numbers, width, false };
}

static struct matrix transpose_of(const double *numbers, size_t width)
{
	return (struct matrix){ numbers, width, true };
}

static const double *layer_input(const struct cuda_model *m, unsigned l)
{
	return l == 0 ? m->x : m->output[l - 1];
}

void cuda_model_forward(struct cuda_model *m, size_t rows)
{
	for (unsigned l = 0; l < m->layout.layers && rows > 0; l++) {
		const struct layer *layer = &m->layout.layer[l];
		const double *w = m->state + layer->offset,
			     *b = w + layer->shape.in * layer->shape.out;
		size_t out = layer->shape.out, count = rows * out;

		run(m, KERNEL_BIAS, count, (void *[]){ &b, &rows, &out, &m->output[l] });
		multiply(m, rows, out, layer->shape.in, of(layer_input(m, l), layer->shape.in),
			 transpose_of(w, layer->shape.in), 1, m->output[l]);
		if (l < m->layout.layers - 1)
			run(m, KERNEL_RELU, count, (void *[]){ &m->output[l], &count });
	}
}

void cuda_model_loss(struct cuda_model *m, size_t rows, double scale, double keep_sums,
		     double *sums)
{
	const unsigned last = m->layout.layers - 1;
	size_t classes = m->layout.layer[last].shape.out, width = m->layout.rows_max;

	if (rows == 0) {
		if (keep_sums == 0)
			clear(m, sums, SUMS_NUMBERS);
		return;
	}
	run(m, KERNEL_LOSS, rows,
	    (void *[]){ &m->output[last], &m->y, &rows, &classes, &scale, &m->delta[last],
			&m->terms, &width });
	multiply(m, SUMS_NUMBERS, 1, rows, of(m->terms, width), of(m->ones, 1), keep_sums, sums);
}

/* delta of the layer below = (delta × w), where its ReLU was open */
static void backward_input(struct cuda_model *m, unsigned l, size_t rows)
{
	const struct layer *layer = &m->layout.layer[l];
	size_t count = rows * layer->shape.in;

	multiply(m, rows, layer->shape.in, layer->shape.out, of(m->delta[l], layer->shape.out),
		 of(m->state + layer->offset, layer->shape.in), 0, m->delta[l - 1]);
	run(m, KERNEL_CLOSE, count, (void *[]){ &m->output[l - 1], &count, &m->delta[l - 1] });
}

void cuda_model_backward(struct cuda_model *m, unsigned l, size_t rows)
{
	const struct layer *layer = &m->layout.layer[l];
	double *dw = m->gradients + layer->offset, *db = dw + layer->shape.in * layer->shape.out;

	if (rows == 0) {
		clear(m, dw, layer->count);
		return;
	}
	multiply(m, layer->shape.out, layer->shape.in, rows,
		 transpose_of(m->delta[l], layer->shape.out),
		 of(layer_input(m, l), layer->shape.in), 0, dw);
	multiply(m, layer->shape.out, 1, rows, transpose_of(m->delta[l], layer->shape.out),
		 of(m->ones, 1), 0, db);
	if (l > 0)
		backward_input(m, l, rows);
}

void cuda_model_update(struct cuda_model *m, size_t first, size_t count, double rate,
		       double momentum, double decay)
{
	double *weights = m->state + first, *velocity = weights + m->layout.parameters,
	       *gradients = m->gradients + first;

	run(m, KERNEL_UPDATE, count,
	    (void *[]){ &weights, &velocity, &gradients, &count, &rate, &momentum, &decay });
}

void cuda_model_count(struct cuda_model *m, int first)
{
	double *sums = m->state + 2 * m->layout.parameters,
	       *more = m->gradients + m->layout.parameters;
	uint32_t anew = first != 0;
	size_t count = SUMS_NUMBERS;

	run(m, KERNEL_COUNT, count, (void *[]){ &sums, &more, &count, &anew });
}
