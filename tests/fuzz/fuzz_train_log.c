/* SPDX-License-Identifier: BSD-3-Clause */
/* A log of the trainer, read for a comparison. */
#include <math.h>

#include "fuzz.h"
#include "logs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct logged log = { 0 };
	struct why why = { "" };

	if (logged_parse("fuzz-log", (const char *)data, size, &log, &why) == TUTTI_OK) {
		FUZZ_PROMISE(log.point_count > 0 && log.ranks >= 1 && log.way && log.data);
		for (size_t i = 0; i < log.point_count; i++)
			FUZZ_PROMISE(isfinite(log.points[i].train_loss) &&
				     isfinite(log.points[i].seconds));
	} else {
		FUZZ_PROMISE(why.text[0] && !log.points && !log.way && !log.losses);
	}
	logged_finish(&log);
	return 0;
}
