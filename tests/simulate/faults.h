/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that happen at a switch of the machine's. */
#ifndef TT_SIMULATE_FAULTS_H
#define TT_SIMULATE_FAULTS_H

void faults_begin(void);
/* `rank` begins its step. */
void faults_in_step(int rank, int step);
/* The first survivor begins to go on: those that follow this are planned, once. */
void faults_later(void);

#endif
