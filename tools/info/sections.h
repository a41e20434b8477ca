/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the report, one file each. Every section is a JSON object that always has the same
 * keys; what is not known is null. A value that is a problem has an error message under its key in
 * "hints". */
#ifndef INFO_SECTIONS_H
#define INFO_SECTIONS_H

#include <jansson.h>

json_t *section_cpu(void);
json_t *section_memory(void);
json_t *section_network(void);
json_t *section_rdma(void);
json_t *section_gpu(void);
json_t *section_limits(void);
json_t *section_kernels(void);
json_t *section_model(void);
json_t *section_launcher(void);

#endif
