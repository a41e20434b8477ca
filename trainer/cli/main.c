/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train: trains a multilayer perceptron on many ranks as if on one. Start reading at train.c.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "output.h"
#include "save.h"
#include "train.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Says why; false. `alike`: NULL, or the ranks that have this error. */
static bool complain(const struct team *team, struct report *report, const struct alike *alike)
{
	report_interrupt(report);
	if (alike && alike->repeats)
		return false;
	if (team->size > 1 && alike && *alike->ranks)
		fprintf(stderr, "tutti-train: %s: %s\n", alike->ranks, why.text);
	else if (team->size > 1)
		fprintf(stderr, "tutti-train: rank %d: %s\n", team->origin, why.text);
	else
		fprintf(stderr, "tutti-train: %s\n", why.text);
	return false;
}

/* This rank alone fails: the others are told, rather than left to wait for it. */
static bool give_up(const struct team *team, struct report *report)
{
	complain(team, report, NULL);
	tutti_comm_abort(team->comm, why.text);
	return false;
}

/* Prepare on each rank, and agree that all could. With --shard a rank that has no memory does not come to
 * what the others do next. */
static bool prepare(const struct options *options, struct team *team, struct report *report,
		    struct training *training)
{
	struct alike alike = { 0 };
	bool ok = report_create(options, report) &&
		  (team->rank > 0 ||
		   (save_check(options) && plot_check(options) && report_open(report))) &&
		  training_create(options, team, report, training);

	ok = team_agree(team, ok, options_hash(options), training->data.hash, &alike);
	if (ok && options->shard) {
		ok = training_share(training);
		if (!ok && why.result == TUTTI_ERR_NO_MEMORY)
			return give_up(team, report);
		alike = (struct alike){ 0 };
		ok = team_agree(team, ok, 0, training->data.hash, &alike);
	}
	if (ok)
		return true;
	/* launchers end a job when the first rank fails: all errors are printed before; of a
	 * replacement that cannot begin the others, who go on, say nothing */
	complain(team, report, team->newcomer ? NULL : &alike);
	tutti_barrier(team->comm, NULL);
	return false;
}

/* If all ranks fail alike, rank 0 says so, and nobody ends before. */
static bool train(struct team *team, struct report *report, struct training *training)
{
	const struct alike alike = { .repeats = team->rank > 0, .ranks = "all ranks" };

	if (training_run(training))
		return true;
	if (!training->failed_alike)
		return give_up(team, report);
	complain(team, report, &alike);
	tutti_barrier(team->comm, NULL);
	return false;
}

/* After the others have gone: they need not wait for the pictures. */
static bool finish(const struct team *team, struct report *report, struct training *training)
{
	const bool predicts = report->on && training->options->predict;

	return (report_end(report) && (!predicts || predict_validation(training))) ||
	       complain(team, report, NULL);
}

/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join, one prints the error of all, and no rank exits before. If they do not join within
 * three seconds, each prints its own. */
static void refuse(void)
{
	const struct why wrong = why;
	struct team team = { 0 };
	struct report none = { 0 };
	struct alike alike = { 0 };
	const bool joined = !team_is_newcomer() && team_join(&team, 3);

	why = wrong;
	if (joined)
		team_agree(&team, false, 0, 0, &alike);
	complain(&team, &none, &alike);
	if (team.comm)
		tutti_barrier(team.comm, NULL);
	team_leave(&team);
}

int main(int argc, char **argv)
{
	struct options options;
	struct team team = { 0 };
	struct report report = { 0 };
	struct training training = { 0 };

	output_begin(EXIT_FAILED);
	signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error, not our end */
	if (argc > 1 && (strcmp(argv[1], "report") == 0 || strcmp(argv[1], "compare") == 0))
		return compare_exec(argc - 1, argv + 1);
	switch (options_parse(argc, argv, &options)) {
	case OPTIONS_DONE: return 0;
	case OPTIONS_WRONG: refuse(); return EXIT_USAGE;
	case OPTIONS_RUN: break;
	}
	if (options.model)
		return predict(&options) || complain(&team, &report, NULL) ? 0 : EXIT_FAILED;
	bool ok = team_join(&team, 0);
	if (!ok && why.result == TUTTI_ERR_TIMEOUT && team.newcomer) {
		/* the others were done, or have gone on without: that fails nobody */
		fprintf(stderr, "tutti-train: this replacement was not needed: %s\n", why.text);
		return 0;
	}
	ok = ok || complain(&team, &report, NULL);
	ok = ok && prepare(&options, &team, &report, &training) && train(&team, &report, &training);
	grid_finish(&training.grid);
	team_leave(&team);
	ok = ok && finish(&team, &report, &training);
	training_finish(&training);
	report_finish(&report);
	return ok ? 0 : EXIT_FAILED;
}
