/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses that a rank tells its peers, and what a dialling rank makes of them. */
#include "address.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tcp_candidate candidates[TCP_CANDIDATES_MAX];
	struct tcp_card theirs, own;
	char text[TCP_ADDRESS_TEXT];

	const size_t half = size / 2;

	if (!tt_tcp_card_read(data, half, &own) ||
	    !tt_tcp_card_read(data + half, size - half, &theirs))
		return 0;
	const int n = tt_tcp_candidates(&own, &theirs, candidates, false);

	FUZZ_PROMISE(n >= 0 && n <= TCP_CANDIDATES_MAX);
	for (int i = 0; i < n; i++)
		tt_tcp_text(&candidates[i].to, text);
	FUZZ_PROMISE(tt_tcp_connectable(&own, &theirs) == (n > 0));
	const int ways = tt_tcp_ways(&own, &theirs, candidates),
		  rails = tt_tcp_rail_count(&own, &theirs);
	FUZZ_PROMISE(ways >= 0 && ways <= TCP_RAILS_MAX && ways <= n);
	FUZZ_PROMISE(rails >= 1 && rails <= TCP_RAILS_MAX);
	for (int i = 0; i < ways; i++)
		FUZZ_PROMISE(candidates[i].from_length > 0);
	return 0;
}
