/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti-train compare`: the same training in several ways, one after the other, and their report. */
#ifndef TRAIN_TRIALS_H
#define TRAIN_TRIALS_H

/* The command line from "compare" on; the exit status. */
int trials_main(int argc, char **argv);

#endif
