/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_RANK_H
#define TT_RANK_H

/* A rank of a case, from its first instruction on; `scene` is a struct scene. 0, or a complaint
 * is in its report. */
int rank_play(int rank, void *scene);

#endif
