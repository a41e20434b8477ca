/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of all programs: one look (theme.gp), drawn by gnuplot, which is given a script. */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a picture shows beside its graphs. */
struct picture_page {
	const char *heading;
	/* the small print, with the date */
	const char *source;	   /* the machine, or what the figures are of instead */
	const char *version;	   /* of tutti */
	const char *const *legend; /* NULL at the end; entry i stands for line type i + 1 */
	unsigned body;		   /* height of the graphs together, in pixels */
};

/* What the name of a picture ends in, for messages. */
#define PICTURE_EXPECTED "a file name that ends in .svg or .png"

/* Does the name of a picture end so? */
bool picture_named(const char *path);

/* NULL: there is gnuplot. Otherwise an error message. */
const char *picture_missing(void);

/* Begins the script of the picture `path`, a PNG or an SVG by the end of its name, with the page.
 * The caller writes for each graph `eval graph(…)` and `plot`, see theme.gp. NULL: errno says why.
 */
FILE *picture_begin(const char *path, const struct picture_page *page);
/* Ends the script, has gnuplot draw it, and writes the picture. NULL: it is whole. Otherwise an
 * error message, static, and what was at `path` is still there. */
const char *picture_end(FILE *script, const char *path);

/* The processor's model and how many cores there are. Static. */
const char *picture_machine(void);
/* Today, as in 2026-01-31. Static. */
const char *picture_date(void);

#ifdef __cplusplus
}
#endif

#endif
