/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about the figures by which the library chooses algorithms. */
#include <math.h>

#include "tutti/tutti.h"

#include "sections.h"

static void put(json_t *section, const char *key, bool known, double value)
{
	value_real_if(section, key, known, round(value * 100) / 100);
}

json_t *section_model(void)
{
	json_t *section = value_section();
	tutti_model_t model = { .size = sizeof(model) };
	const bool known = tutti_model(&model) == TUTTI_OK;

	value_text(section, "source", known ? model.source : NULL);
	put(section, "line_between_cores_ns", known, model.line * 1e9);
	put(section, "handover_on_a_core_ns", known, model.handover * 1e9);
	put(section, "copy_gbs", known, 1e-9 / model.copy);
	put(section, "reduce_gbs", known, 1e-9 / model.reduce);
	put(section, "tcp_message_us", known, model.message * 1e6);
	put(section, "tcp_stream_gbs", known, 1e-9 / model.stream);
	if (!known)
		value_hint(section, "source", "%s", tutti_last_error(NULL));
	return section;
}
