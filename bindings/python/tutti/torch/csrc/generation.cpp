// SPDX-License-Identifier: BSD-3-Clause
// Rank 0 names a generation by chance, and confirms it when all others have joined. Keys of the store:
//
//   tutti/generation         its name and its number of ranks; the last rank 0 to write it stays
//   tutti/NAME/rank/R        how many processes have joined it as rank R
//   tutti/NAME/joined        how many ranks have
//   tutti/NAME/all           set by the last of them
//   tutti/NAME/confirmed     by rank 0: all are in it. The job's key
//
// A rank that finds an old generation does not take it for its own. Either its rank 0 had confirmed
// it, and then another process had joined it as this rank: the count says so. Or it had not, and is
// gone: then nobody confirms it. In both cases the rank waits until there is another name.
#include "generation.h"

#include <charconv>
#include <random>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "errors.h"
#include "gil.h"

namespace tutti_torch
{

namespace
{

const char *const CURRENT = "tutti/generation";

// Two numbers with a space between, and nothing else.
bool parse(const std::string &text, uint64_t *name, int *size)
{
	const char *const end = text.data() + text.size();
	const auto first = std::from_chars(text.data(), end, *name);

	if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ')
		return false;
	const auto second = std::from_chars(first.ptr + 1, end, *size);
	return second.ec == std::errc() && second.ptr == end && *size > 0;
}

class Joining
{
      public:
	Joining(const StorePtr &store, int rank, int size, Milliseconds timeout)
	    : store_(store), rank_(rank), size_(size), timeout_(timeout)
	{
	}

	Generation lead(const std::string &key)
	{
		std::random_device random;

		name_ = std::to_string(uint64_t(random()) << 32 | random());
		store_->set(CURRENT, name_ + " " + std::to_string(size_));
		wait([this] { return store_->check({ of("all") }); });
		store_->set(of("confirmed"), with_sign(key));
		return joined(key);
	}

	Generation follow()
	{
		wait([this] { return look() && store_->check({ of("confirmed") }); });
		return joined(get_signed(*store_, of("confirmed")));
	}

      private:
	// It may take long: a signal ends it.
	template <class Ask> void wait(Ask ask)
	{
		const auto asked = [&] {
			handle_signals();
			return ask();
		};

		if (!poll(asked, timeout_))
			throw_late();
	}

	std::string of(const std::string &what) const
	{
		return "tutti/" + name_ + "/" + what;
	}

	std::string of_rank(int rank) const
	{
		return of("rank/" + std::to_string(rank));
	}

	// Join the generation that is there, unless it is known; whether this rank is a member of one.
	bool look()
	{
		if (name_.empty() && !store_->check({ CURRENT }))
			return false;
		const std::string found = store_->get_to_str(CURRENT);
		uint64_t name;
		int size; // rank 0's: the library tells who was given another

		if (!parse(found, &name, &size))
			throw_unknown(CURRENT, found,
				      "rank 0's name of the group and number of ranks");
		if (std::to_string(name) == name_)
			return member_;
		name_ = std::to_string(name);
		member_ = store_->add(of_rank(rank_), 1) == 1;
		if (member_ && store_->add(of("joined"), 1) == size - 1)
			store_->set(of("all"), with_sign(""));
		return member_;
	}

	Generation joined(const std::string &key) const
	{
		return { c10::make_intrusive<c10d::PrefixStore>("tutti/" + name_, store_), key };
	}

	// In the words of the library, which says it of those that come so far.
	[[noreturn]] void throw_late()
	{
		const std::string late = name_late(),
				  when = " by rank " + std::to_string(rank_) + "'s deadline: ",
				  meeting = " to the rendezvous of " + std::to_string(size_) +
					    " ranks";

		throw_failure(TUTTI_ERR_TIMEOUT,
			      "tutti: Timed out : " +
				      (late.empty() ? "rank 0 came" + meeting +
							      ", but has not gone on with it" +
							      when + "died or stopped?"
						    : late + " not come" + meeting + when +
							      "was every rank started, with the "
							      "same store?"));
	}

	// "rank 1 has", "ranks 2, 3 have" not joined; without a generation that is rank 0 alone.
	std::string name_late()
	{
		constexpr int named_max = 16;
		std::string late;
		int count = 0;

		if (rank_ && !member_)
			return "rank 0 has";
		for (int rank = 1; rank < size_ && count < named_max; rank++)
			if (rank != rank_ && !store_->check({ of_rank(rank) }))
				late += (count++ ? ", " : "") + std::to_string(rank);
		if (count < 2)
			return count ? "rank " + late + " has" : "";
		return "ranks " + late + (count == named_max ? " (at least)" : "") + " have";
	}

	const StorePtr store_;
	const int rank_, size_;
	const Milliseconds timeout_;
	std::string name_;
	bool member_ = false;
};

} // namespace

Generation join_generation(const StorePtr &store, int rank, int size, const std::string &key,
			   Milliseconds timeout)
{
	Joining joining(store, rank, size, timeout);

	return rank == 0 ? joining.lead(key) : joining.follow();
}

} // namespace tutti_torch
