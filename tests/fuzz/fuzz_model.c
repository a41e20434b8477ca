/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a machine's figures, by which algorithms are chosen. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "log.h"
#include "model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct tt_model model = { 0 };

	if (fd < 0) {
		fd = memfd_create("figures", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_PROMISE(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	const tutti_result_t result = tt_model_read(path, &model);

	FUZZ_PROMISE(result == TUTTI_OK || result == TUTTI_ERR_INVALID);
	if (result)
		FUZZ_PROMISE(tt_thread_error()[0]);
	else
		FUZZ_PROMISE(model.line > 0 && model.handover > 0 && model.copy > 0 &&
			     model.reduce > 0 && model.message > 0 && model.stream > 0 &&
			     model.stream < 0.01);
	return 0;
}
