/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns notices of requests: when they are due, and who carries them out.
 *
 * The thread that ends a request holds the communicator's lock, and may be anybody's who waits for
 * something else. So it writes to descriptors, which takes no time, but leaves calls to the progress
 * thread: functions of the user may take their time and call tutti again. What such a function asks
 * to be told of may have ended already: it is called for that by the progress thread, too, as a chain
 * of operations that end at once would take all of the stack. */
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

/* This thread is in a function, or has left one by a jump. */
static _Thread_local bool inside;

void tt_notice_happen(const struct tt_notice *notice)
{
	if (!notice->function) {
		write_to(notice->fd);
		return;
	}
	TT_CALLBACK callback = tt_callback_begin("the function of tutti_notify()");
	const bool around = inside;

	inside = true;
	notice->function(notice->context);
	inside = around;
	tt_callback_end(&callback);
}

bool tt_notice_can_happen(const struct tt_notice *notice)
{
	return !notice->function || !inside;
}

static void append(struct tt_notice **list, struct tt_notice *notice)
{
	while (*list)
		list = &(*list)->next;
	notice->next = NULL;
	*list = notice;
}

static void make_due(struct tutti_comm *comm, struct tt_notice *notice)
{
	append(&comm->progress->due, notice);
	pthread_cond_signal(&comm->progress->wanted);
	if (comm->progress->asleep)
		tt_comm_interrupt(comm);
}

void tt_notice_hang(struct tutti_request *request, struct tt_notice *notice)
{
	if (request->pending > 0)
		append(&request->notices, notice);
	else
		make_due(request->comm, notice);
}

void tt_notices_due(struct tutti_request *request)
{
	while (request->notices) {
		struct tt_notice *notice = request->notices;

		request->notices = notice->next;
		if (notice->function) {
			make_due(request->comm, notice);
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
	tt_notice_happen(notice);
	free(notice);
	tt_comm_lock(comm);
	return true;
}
