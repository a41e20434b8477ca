/* SPDX-License-Identifier: BSD-3-Clause */
/* The report for people. */
#ifndef INFO_TEXT_H
#define INFO_TEXT_H

#include <stdio.h>

#include <jansson.h>

/* Print the report, an object of sections: the same content as the JSON, with hints below their
 * values. */
void text_print(FILE *out, const json_t *report);

#endif
