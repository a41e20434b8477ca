/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about the instruction sets of the reduction kernels. */
#include <stdlib.h>

#include "tutti/tutti.h"

#include "files.h"
#include "sections.h"

/* those that matter for reductions, as the kernel spells them for x86 and for Arm */
static const char *const features[] = {
	"sse4_2",   "avx",	"f16c",	       "fma",	      "avx2",	     "avx512f",	 "avx512bw",
	"avx512dq", "avx512vl", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "asimd",
	"fphp",	    "asimdhp",	"bf16",	       "i8mm",	      "sve",	     "sve2",
};

json_t *section_kernels(void)
{
	json_t *section = value_section();
	const char *forced = getenv("TUTTI_ISA");
	char *text = files_read("proc/cpuinfo");
	char *list = files_field(text, "flags");

	if (!list)
		list = files_field(text, "Features");
	value_text(section, "isa", tutti_kernel_isa());
	value_text(section, "isa_forced", forced);
	json_t *found = value_list(section, "cpu_features");
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
		if (files_has_word(list, features[i]))
			json_array_append_new(found, json_string(features[i]));
	if (forced)
		value_hint(section, "isa_forced",
			   "TUTTI_ISA keeps the library from choosing: unset it for the fastest "
			   "kernels");
	free(list);
	free(text);
	return section;
}
