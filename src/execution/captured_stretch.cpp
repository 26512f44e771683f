#include "execution/captured_stretch.h"

#include <algorithm>

namespace tandem::graph {
namespace {

/// Arguments land in two places by turns, and results in up to three.
constexpr size_t kMostKnown = 8;

}  // namespace

const devices::CapturedWork* CapturedStretch::find(const StretchKey& key) {
  const auto found = std::ranges::find_if(known_, [&](const Captured& known) {
    return known.arena == key.arena && known.step == key.step &&
           known.is_rounded == key.is_rounded && std::ranges::equal(known.addresses, key.addresses);
  });
  if (found == known_.end()) return nullptr;
  ++replays_;
  return &found->work;
}

/// Where most runs have new addresses, capturing them costs more than it saves.
const devices::CapturedWork* CapturedStretch::add(const StretchKey& key,
                                                  devices::CapturedWork work) {
  if (!work || captures_ == 2 * kMostKnown + replays_) {
    is_given_up_ = true;
    known_.clear();
    return nullptr;
  }
  ++captures_;
  if (known_.size() == kMostKnown) known_.erase(known_.begin());
  known_.push_back({{key.addresses.begin(), key.addresses.end()},
                    key.arena,
                    key.step,
                    key.is_rounded,
                    std::move(work)});
  return &known_.back().work;
}

}  // namespace tandem::graph
