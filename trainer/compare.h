/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti-train report`: trainings side by side, by their logs. */
#ifndef TRAIN_COMPARE_H
#define TRAIN_COMPARE_H

/* The command line from "report" on; the exit status. */
int compare_main(int argc, char **argv);

#endif
