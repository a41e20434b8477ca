/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the public calls by which a program is told of the end of a request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callback.h"
#include "log.h"
#include "notices.h"
#include "progress_state.h"
#include "request.h"

static tutti_result_t hang(struct tutti_request *request, const struct tt_notice *notice,
			   const char *call)
{
	struct tutti_comm *comm = request->comm;
	struct tt_notice *kept = malloc(sizeof(*kept));
	bool later, driven;

	if (!kept)
		return tt_fail(TUTTI_ERR_NO_MEMORY, EXEC, "%s: no memory for a notice", call);
	*kept = *notice;
	tt_comm_lock(comm);
	later = request->pending > 0 || !tt_notice_can_happen(notice);
	if (later)
		tt_progress_thread_want(comm);
	driven = comm->progress->started;
	if (later && driven)
		tt_notice_hang(request, kept);
	pthread_mutex_unlock(&comm->lock);
	if (later && driven)
		return TUTTI_OK;
	free(kept);
	if (later)
		return tt_fail(
			TUTTI_ERR_SYSTEM, EXEC,
			"%s: the progress thread could not be started (see the log): wait for "
			"the request with tutti_wait()",
			call);
	tt_notice_happen(notice);
	return TUTTI_OK;
}

static tutti_result_t notify(struct tutti_request *request, const struct tt_notice *notice,
			     const char *call)
{
	if (!request) {
		tt_notice_happen(notice);
		return TUTTI_OK;
	}
	if (tt_callback_here())
		return tt_fail_callback(call);
	if (!tt_owned_here(&request->owner))
		return tt_fail_inherited(&request->owner, call, "request");
	return hang(request, notice, call);
}

TUTTI_API tutti_result_t tutti_notify(tutti_request_t request, tutti_notify_fn_t function,
				      void *context)
{
	if (!function)
		return tt_fail(TUTTI_ERR_INVALID, EXEC, "tutti_notify: function is NULL");
	return notify(request, &(struct tt_notice){ .function = function, .context = context },
		      "tutti_notify");
}

/* Others, such as pipes, may block who writes, or end the process by SIGPIPE. Where /proc is not
 * mounted, all are taken. */
static tutti_result_t check_fd(int fd)
{
	static const char expected[] = "anon_inode:[eventfd]";
	char link[32], target[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	const ssize_t length = readlink(link, target, sizeof(target) - 1);
	if (length < 0 && access("/proc/self/fd", F_OK) != 0)
		return TUTTI_OK;
	target[length > 0 ? length : 0] = '\0';
	if (strcmp(target, expected) == 0)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, EXEC,
		       "tutti_notify_fd: descriptor %d is %s, expected one of eventfd()", fd,
		       length < 0 ? "not open" : target);
}

TUTTI_API tutti_result_t tutti_notify_fd(tutti_request_t request, int fd)
{
	const tutti_result_t result = check_fd(fd);

	if (result)
		return result;
	return notify(request, &(struct tt_notice){ .fd = fd }, "tutti_notify_fd");
}
