/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of kernels.cu, as they were built. */
#ifndef TRAIN_CUDA_IMAGE_H
#define TRAIN_CUDA_IMAGE_H

#include "gpu.h"
#include "why.h"

/* Into the GPU that the thread has entered. */
bool cuda_image_load(gpu_module_t *out);

#endif
