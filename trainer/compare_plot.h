/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of trainings side by side. */
#ifndef TRAIN_COMPARE_PLOT_H
#define TRAIN_COMPARE_PLOT_H

#include "logs.h"

enum { COMPARE_MOST = 14, COMPARE_NAME = 96 };

/* Graphs of `count` trainings, as many as there are numbers for, into `path`. */
tutti_result_t compare_plot(const char *path, const struct logged *logs,
			    const char names[][COMPARE_NAME], int count, struct why *why);

#endif
