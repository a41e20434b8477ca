/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns notices of requests: when they are due, and who carries them out.
 *
 * The thread that ends a request holds the communicator's lock, and may be anybody's who waits for
 * something else. So it writes to descriptors, which takes no time, but leaves calls to the progress
 * thread: functions of the user may take their time and call tutti again. What such a function asks
 * to be told of may have ended already: it is called for that once it has returned, as a chain of
 * operations that end at once would take all of the stack. */
#include "notices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callback.h"
#include "log.h"
#include "progress_state.h"
#include "request.h"

static void write_to(int fd)
{
	const uint64_t one = 1;

	/* an eventfd refuses only where it is readable already */
	if (write(fd, &one, sizeof(one)) < 0)
		tt_log(DEBUG, EXEC, "descriptor %d of a notice: %s", fd, strerror(errno));
}

static _Thread_local struct {
	bool calls;		 /* this thread is in a function */
	struct tt_notice *later; /* for when that has returned */
} turn;

/* What it leaves for later is in turn.later. */
static void call(const struct tt_notice *notice)
{
	TT_CALLBACK callback = tt_callback_begin("the function of tutti_notify()");

	turn.calls = true;
	notice->function(notice->context);
	turn.calls = false;
	tt_callback_end(&callback);
}

static bool call_later(const struct tt_notice *notice)
{
	struct tt_notice *kept = malloc(sizeof(*kept));

	if (!kept)
		return false;
	*kept = *notice;
	tt_notice_append(&turn.later, kept);
	return true;
}

bool tt_notice_happen(const struct tt_notice *notice)
{
	if (!notice->function) {
		write_to(notice->fd);
		return true;
	}
	if (turn.calls)
		return call_later(notice);
	call(notice);
	while (turn.later) {
		struct tt_notice *next = turn.later;

		turn.later = next->next;
		call(next);
		free(next);
	}
	return true;
}

void tt_notice_append(struct tt_notice **list, struct tt_notice *notice)
{
	while (*list)
		list = &(*list)->next;
	notice->next = NULL;
	*list = notice;
}

void tt_notices_due(struct tutti_request *request)
{
	struct tt_progress *progress = request->comm->progress;

	while (request->notices) {
		struct tt_notice *notice = request->notices;

		request->notices = notice->next;
		if (notice->function) {
			tt_notice_append(&progress->due, notice);
			pthread_cond_signal(&progress->wanted);
			if (progress->asleep)
				tt_comm_interrupt(request->comm);
		} else {
			write_to(notice->fd);
			free(notice);
		}
	}
}

static void free_list(struct tt_notice **list)
{
	while (*list) {
		struct tt_notice *notice = *list;

		*list = notice->next;
		free(notice);
	}
}

void tt_notices_drop(struct tutti_request *request)
{
	free_list(&request->notices);
}

void tt_notices_forget(struct tutti_comm *comm)
{
	if (comm->progress)
		free_list(&comm->progress->due);
}

bool tt_notices_call(struct tutti_comm *comm)
{
	/* it has none where making it has failed */
	struct tt_notice *notice = comm->progress ? comm->progress->due : NULL;

	if (!notice)
		return false;
	comm->progress->due = notice->next;
	pthread_mutex_unlock(&comm->lock);
	/* a function may destroy another communicator, whose functions are called here then */
	struct tt_notice *const others = turn.later, **last = &comm->progress->due;
	const bool nested = turn.calls;
	turn.later = NULL;
	call(notice);
	free(notice);
	tt_comm_lock(comm);
	while (*last)
		last = &(*last)->next;
	*last = turn.later;
	turn.later = others;
	turn.calls = nested;
	return true;
}
