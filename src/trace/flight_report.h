/* SPDX-License-Identifier: BSD-3-Clause */
/* A report: the file that a flight recorder leaves, and that tutti-trace reads. It is the head
 * below and then a copy of the flight as it lies in memory, in which each operation and each call on
 * a stream is whole or has the number 0. */
#ifndef TT_FLIGHT_REPORT_H
#define TT_FLIGHT_REPORT_H

#include "flight.h"

#define TT_FLIGHT_REPORT_SUFFIX ".flight.report"
#define TT_FLIGHT_REPORT_MAGIC	0x31545052544c4654ull /* "TFLTRPT1", where this byte order is used */
#define TT_FLIGHT_NAME		32

struct tt_flight_report {
	uint64_t magic;
	uint64_t flight_magic; /* that of the flight behind the head: its layout */
	uint64_t head_bytes, flight_bytes;
	char version[24]; /* of the library */
	char why[16];
	uint64_t ticks, monotonic, realtime; /* when it was written, by all clocks */
	/* what numbers in the flight mean; "": nothing */
	char collectives[32][TT_FLIGHT_NAME];
	uint8_t own_counts[32]; /* of a collective: a rank knows the counts of its blocks alone */
	char parts[16][TT_FLIGHT_NAME];
	char algorithms[64][TT_FLIGHT_NAME];
};

/* Behind the head: the flight begins at a page. */
#define TT_FLIGHT_REPORT_AT ((sizeof(struct tt_flight_report) + 4095) / 4096 * 4096)

#endif
