#include "distribute/range/held_steps.h"

#include <algorithm>
#include <cstring>

#include "collective/element_sum.h"

namespace tandem::distribute {

void HeldSteps::hold(int64_t ticket, const Contribution& contribution,
                     std::span<const RangePiece> pieces) {
  Held& kept = held_[ticket];
  kept.conditions = contribution.conditions;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<int64_t>* const rows = rows_at(contribution.rows, i);
    const auto* bytes = static_cast<const std::byte*>(contribution.pieces[i]);
    kept.pieces.emplace_back(bytes, bytes + pieces[i].bytes_of(rows));
    kept.rows.push_back(rows == nullptr ? std::vector<int64_t>() : *rows);
  }
}

std::vector<const HeldSteps::Held*> HeldSteps::shares_of(int64_t step) const {
  std::vector<const Held*> shares;
  const auto end = held_.lower_bound((step + 1) * shares_);
  for (auto share = held_.lower_bound(step * shares_); share != end; ++share)
    shares.push_back(&share->second);
  return shares;
}

StepSum HeldSteps::sum(int64_t step, std::span<const RangePiece> pieces,
                       std::span<const AssignedVariable> assigned) const {
  const std::vector<const Held*> shares = shares_of(step);
  const size_t first_assigned = pieces.size() - assigned.size();
  StepSum sum{.step = step};
  sum.pieces.resize(pieces.size());
  sum.rows.resize(pieces.size());
  sum.contribution.rows.resize(pieces.size());
  sum.contribution.conditions = shares[0]->conditions;
  for (const Held* const share : shares) {
    for (size_t c = 0; c < share->conditions.size(); ++c) {
      if (!share->conditions[c]) sum.contribution.conditions[c] = false;
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].updates_rows) {
      sum_rows(shares, pieces[i], i, sum);
      continue;
    }
    std::vector<const void*> values;
    for (const Held* const share : shares) values.push_back(share->pieces[i].data());
    const bool is_summed = i < first_assigned || assigned[i - first_assigned].is_summed;
    if (!is_summed || values.size() == 1) {
      sum.contribution.pieces.push_back(values[0]);
      continue;
    }
    const StoreRange& range = pieces[i].range;
    sum.pieces[i].resize(pieces[i].bytes());
    collective::sum_elements(range.block->dtype(), values, sum.pieces[i].data(), range.count);
    sum.contribution.pieces.push_back(sum.pieces[i].data());
  }
  return sum;
}

/// The sum of a piece of which rows alone are updated: the rows that some share has.
void HeldSteps::sum_rows(std::span<const Held* const> shares, const RangePiece& own, size_t piece,
                         StepSum& sum) {
  std::vector<int64_t>& rows = sum.rows[piece];
  for (const Held* const share : shares)
    rows.insert(rows.end(), share->rows[piece].begin(), share->rows[piece].end());
  std::ranges::sort(rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  const size_t bytes = own.bytes_of(&rows);
  std::vector<std::vector<std::byte>> values;  // Each share's, with zeros for rows of others.
  std::vector<const void*> addresses;
  for (const Held* const share : shares) {
    std::vector<std::byte>& all = values.emplace_back(bytes);
    const std::vector<int64_t>& others = share->rows[piece];
    const std::byte* from = share->pieces[piece].data();
    std::byte* to = all.data();
    auto next = others.begin();
    for (const int64_t row : rows) {
      const std::vector<int64_t> one = {row};
      const size_t count = own.bytes_of(&one);
      if (next != others.end() && *next == row) {
        std::memcpy(to, from, count);
        from += count;
        ++next;
      }
      to += count;
    }
    addresses.push_back(all.data());
  }
  const DType dtype = own.range.block->dtype();
  sum.pieces[piece].resize(bytes);
  collective::sum_elements(dtype, addresses, sum.pieces[piece].data(),
                           static_cast<int64_t>(bytes / size_of(dtype)));
  sum.contribution.pieces.push_back(sum.pieces[piece].data());
  sum.contribution.rows[piece] = &rows;
}

void HeldSteps::forget(int64_t step) {
  held_.erase(held_.lower_bound(step * shares_), held_.lower_bound((step + 1) * shares_));
}

}  // namespace tandem::distribute
