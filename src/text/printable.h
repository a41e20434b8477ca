/* SPDX-License-Identifier: BSD-3-Clause */
/* Text from outside that is shown to people. Part of the library and the programs beside it,
 * which compile it for themselves; it knows nothing of any of them. */
#ifndef TT_PRINTABLE_H
#define TT_PRINTABLE_H

/* Put '?' for each byte that a terminal may act on instead of showing it: control characters,
 * line ends and tabs among them, in their one-byte form and in UTF-8, marks that change the
 * direction of text or have no width (a byte-order mark), and bytes that are not UTF-8. Gives `text`. */
char *tt_printable(char *text);

#endif
