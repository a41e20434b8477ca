/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that happen at a switch of the machine's. */
#ifndef TT_SIMULATE_FAULTS_H
#define TT_SIMULATE_FAULTS_H

#include "plan.h"

void faults_begin(void);
/* `rank` begins its step. */
void faults_in_step(int rank, int step);
/* The first rank begins what deaths of this kind follow: they are planned, once. */
void faults_from_now(enum fault_kind kind);

#endif
