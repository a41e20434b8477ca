/* SPDX-License-Identifier: BSD-3-Clause */
#include "throws.h"

#include <stdexcept>

void throw_it(void)
{
	throw std::runtime_error("out of a function that tutti calls");
}

bool catch_it(void (*body)(void *argument), void *argument)
{
	try {
		body(argument);
	} catch (const std::exception &) {
		return true;
	}
	return false;
}
