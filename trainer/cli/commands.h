/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done with models and logs of trainings. */
#ifndef TRAIN_COMMANDS_H
#define TRAIN_COMMANDS_H

#include <stdbool.h>

struct options;
struct training;

/* --predict, on one rank, when the training is done: the labels that the model gives to the validation
 * samples, one a line, in the order of the data. */
bool predict_validation(struct training *training);
/* tutti-train predict MODEL --data FILE [--labels FILE] [--predict FILE] */
bool predict(const struct options *options);
/* The command line from "report" or "compare" on: trainings side by side, by their logs. Gives the exit
 * status, if it returns. */
int compare_exec(int argc, char **argv);

#endif
