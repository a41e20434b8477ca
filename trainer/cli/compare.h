/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti-train report` and `tutti-train compare`: trainings side by side, by their logs. */
#ifndef TRAIN_COMPARE_H
#define TRAIN_COMPARE_H

/* The command line from "report" or "compare" on. Gives the exit status, if it returns. */
int compare_exec(int argc, char **argv);

#endif
