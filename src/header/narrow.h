/* SPDX-License-Identifier: BSD-3-Clause */
/* What float32 travels as, where a call asks for fewer bytes than it has in memory. */
#ifndef TT_NARROW_H
#define TT_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Without TUTTI_WIRE_IF_FASTER. */
static inline tutti_wire_t tt_narrow_format(tutti_wire_t wire)
{
	return wire & ~TUTTI_WIRE_IF_FASTER;
}

/* Does it narrow anything? */
static inline bool tt_narrow_is(tutti_wire_t wire)
{
	return tt_narrow_format(wire) > TUTTI_WIRE_FLOAT32;
}

/* Of a narrow format: the numbers of an element, which moves as a whole, and its bytes. */
size_t tt_narrow_values(tutti_wire_t wire);
size_t tt_narrow_element(tutti_wire_t wire);
/* Elements that `n` numbers make. */
size_t tt_narrow_elements(tutti_wire_t wire, size_t n);
/* TUTTI_ERR_INVALID with an error message that begins with `from`: it is no value of
 * tutti_wire_t. */
tutti_result_t tt_narrow_check(const char *from, tutti_wire_t wire);

/* tutti_wire_parse(), with an error message that begins with `from`. */
tutti_result_t tt_narrow_parse(const char *from, const char *text, tutti_wire_t *wire);

/* In headers a type and what it travels as share a byte. */
uint8_t tt_narrow_dtype(tutti_dtype_t dtype, tutti_wire_t wire);
/* "float32", "float32 as int8"; NULL: it is none. Static. */
const char *tt_narrow_dtype_name(uint8_t dtype);

#endif
