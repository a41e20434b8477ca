/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims on tutti-train, in groups: each runs, and gives how many failed. */
#ifndef TRAIN_CLAIMS_H
#define TRAIN_CLAIMS_H

int claims_of_learning(void);
int claims_of_ways(void);
int claims_of_bfloat16(void);
int claims_of_optimisers(void);
int claims_of_pieces(void);
int claims_of_shares(void);
int claims_of_output(void);
int claims_of_errors(void);
int claims_of_gpus(void);

#endif
