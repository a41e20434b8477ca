/* SPDX-License-Identifier: BSD-3-Clause */
/* The model, its passes and its update on a GPU, as model.h and optimizer.h have them on the
 * processor: the same layout, the same numbers but for the order in which products are summed.
 *
 * Functions put work on the model's stream and return. After one has failed the others do
 * nothing, and why says what it was. All memory is of the GPU. */
#ifndef TRAIN_CUDA_MODEL_H
#define TRAIN_CUDA_MODEL_H

#include "batches.h"
#include "cublas.h"
#include "model.h"

enum cuda_kernel {
	KERNEL_GATHER,
	KERNEL_BIAS,
	KERNEL_RELU,
	KERNEL_CLOSE,
	KERNEL_LOSS,
	KERNEL_UPDATE,
	KERNEL_COUNT,
	KERNELS
};

/* Zeroed is empty. */
struct cuda_model {
	struct model layout; /* widths and places alone */
	gpu_stream_t stream;
	cublas_t cublas;
	gpu_module_t module;
	gpu_kernel_t kernel[KERNELS];
	bool failed;

	char *memory;	   /* owned: all that follows is in it, but the gradients, which are the
			    * caller's */
	double *state;	   /* as struct state has it: weights, velocity, the epoch's sums so far */
	double *gradients; /* and behind them the step's sums */
	double *validated; /* sums of a validation */
	double *output[MODEL_LAYERS_MAX], *delta[MODEL_LAYERS_MAX];
	double *ones, *terms; /* [rows_max]; [SUMS_NUMBERS][rows_max]: what each sample adds to
			       * the sums */
	double *x;
	uint32_t *y;
	float *data_x; /* all samples, in the order of the file */
	uint32_t *data_y, *order, *test;
};

/* On the GPU that the thread has entered. */
bool cuda_model_create(const struct model *layout, const struct data *data,
		       const struct split *split, struct cuda_model *out);
void cuda_model_finish(struct cuda_model *model);

/* Of either side to the other; the host's memory may be used as soon as the call returns. */
void cuda_model_copy(struct cuda_model *model, void *to, const void *from, size_t bytes);

void cuda_model_gather(struct cuda_model *model, const struct data *data, const uint32_t *rows,
		       size_t count);
void cuda_model_forward(struct cuda_model *model, size_t rows);
/* `sums` = what the samples of the last forward pass add up to + `keep` × `sums`. */
void cuda_model_loss(struct cuda_model *model, size_t rows, double scale, double keep,
		     double *sums);
void cuda_model_backward(struct cuda_model *model, unsigned l, size_t rows);
void cuda_model_update(struct cuda_model *model, size_t first, size_t count, double rate,
		       double momentum, double decay);
/* The step's sums are added to the epoch's, which the first step begins. */
void cuda_model_count(struct cuda_model *model, int first);

#endif
