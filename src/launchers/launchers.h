/* SPDX-License-Identifier: BSD-3-Clause */
/* The launchers that people have, and the environment variables that each sets: for the library and
 * its programs. */
#ifndef TT_LAUNCHERS_H
#define TT_LAUNCHERS_H

/* In the order in which they are looked for. PMI and PMIx are launchers that speak these and say no more. */
enum tt_launcher_id {
	TT_TUTTI_RUN,  /* or the user by hand */
	TT_KUBERNETES, /* an Indexed Job, whose manifest has TUTTI_SIZE */
	TT_TORCHRUN,
	TT_OPEN_MPI,
	TT_HYDRA,
	TT_SLURM,
	TT_PMI,
	TT_PMIX,
	TT_LAUNCHERS
};

struct tt_launcher {
	const char *name;
	const char *signs[2];	 /* either of them is set: this launcher started us */
	const char *own;	 /* set by it, and not handed on by tutti-run; NULL: nothing is */
	const char *rank, *size; /* no size: it is asked for all four */
	const char *size_too;	 /* where `size` is not set */
	const char *local_rank, *local_size;
};

extern const struct tt_launcher tt_launchers[TT_LAUNCHERS];

/* The one that started this process. NULL: none did. */
const struct tt_launcher *tt_launcher_find(void);
/* A variable's value, NULL if it is not set or empty. NULL is no name, and has none. */
const char *tt_launcher_variable(const char *name);
/* The name of the variable that has the size: NULL where the launcher is asked. */
const char *tt_launcher_size(const struct tt_launcher *launcher);
/* The first of its signs that is set; its value in *value. */
const char *tt_launcher_sign(const struct tt_launcher *launcher, const char **value);

#endif
