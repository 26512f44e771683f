#include "distribute/range/step_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/element_sum.h"
#include "distribute/range/task_message.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

/// The pieces of a text, which lie in it.
std::vector<op::Piece> pieces_in(std::string& text) {
  MessageReader reader(text);
  std::vector<op::Piece> pieces;
  for (auto left = reader.read<uint64_t>(); left > 0; --left) {
    const auto dtype = reader.read<DType>();
    const auto count = reader.read<int64_t>();
    reader.align();
    if (count < 0) throw DataLoss("a meeting of workers: values of no length");
    const char* const data = reader.read_bytes(static_cast<size_t>(count) * size_of(dtype));
    pieces.push_back({text.data() + (data - text.data()), count, dtype});
  }
  return pieces;
}

bool are_alike(std::span<const op::Piece> a, std::span<const op::Piece> b) {
  return std::ranges::equal(a, b, [](const op::Piece& one, const op::Piece& other) {
    return one.count == other.count && one.dtype == other.dtype;
  });
}

}  // namespace

std::string text_of_pieces(std::span<const op::Piece> pieces) {
  MessageWriter writer;
  writer.add(static_cast<uint64_t>(pieces.size()));
  for (const op::Piece& piece : pieces) {
    writer.add(piece.dtype).add(piece.count).align();
    writer.add_bytes(piece.data, static_cast<size_t>(piece.count) * size_of(piece.dtype));
  }
  return writer.take();
}

void read_pieces(std::string_view text, std::span<const op::Piece> pieces) {
  std::string own(text);
  const std::vector<op::Piece> read = pieces_in(own);
  if (!are_alike(read, pieces))
    throw DataLoss("a meeting of workers: other values than were given");
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::memcpy(pieces[i].data, read[i].data,
                static_cast<size_t>(pieces[i].count) * size_of(pieces[i].dtype));
  }
}

std::string StepMeeting::sums_of(const Given& given) const {
  std::vector<std::string> texts;
  std::vector<std::vector<op::Piece>> shares;
  texts.reserve(shares_);
  for (const auto& [share, values] : given.values) {
    shares.push_back(pieces_in(texts.emplace_back(values)));
    if (are_alike(shares[0], shares.back())) continue;
    throw InvalidArgument(fmt::format(
        "share {} of a step has other values to be summed than share 0: the workers run different "
        "programs",
        share));
  }
  std::string sums = texts[0];
  const std::vector<op::Piece> to = pieces_in(sums);
  for (size_t i = 0; i < to.size(); ++i) {
    std::vector<const void*> values;
    for (const auto& share : shares) values.push_back(share[i].data);
    collective::sum_elements(to[i].dtype, values, to[i].data, to[i].count);
  }
  return sums;
}

/// Whether it belongs to a step before those that values were given for.
bool StepMeeting::is_former(const MeetingNumber& meeting) const {
  if (meeting.generation < generation_) return true;
  if (meetings_.empty()) return false;
  const MeetingNumber& last = meetings_.rbegin()->first;
  return meeting < MeetingNumber{last.generation, last.step, 0};
}

void StepMeeting::forget_steps_before(const MeetingNumber& step, Answers& answers) {
  while (!meetings_.empty() && meetings_.begin()->first < step) {
    for (auto& [share, answer] : meetings_.begin()->second.waiting) {
      answers.void_ones.push_back(std::move(answer));
    }
    meetings_.erase(meetings_.begin());
  }
}

void StepMeeting::give(const MeetingNumber& meeting, int share, std::string values, Answer answer) {
  if (share < 0 || static_cast<size_t>(share) >= shares_) {
    throw InvalidArgument(fmt::format("share {} of a step of {} shares", share, shares_));
  }
  Answers answers;
  {
    const std::lock_guard lock(mutex_);
    if (is_former(meeting)) {
      answers.void_ones.push_back(std::move(answer));
    } else {
      forget_steps_before({meeting.generation, meeting.step, 0}, answers);
      Given& given = meetings_[meeting];
      if (!given.sums) {
        given.values.try_emplace(share, std::move(values));
        if (given.values.size() == shares_) {
          given.sums = sums_of(given);
          given.values.clear();
        }
      }
      given.waiting[share] = std::move(answer);
      if (given.sums) {
        answers.sums = given.sums;
        for (auto& [each, waiting] : given.waiting) {
          answers.with_sums.push_back(std::move(waiting));
        }
        given.waiting.clear();
      }
    }
  }
  for (const Answer& each : answers.with_sums) each(answers.sums);
  for (const Answer& each : answers.void_ones) each(std::nullopt);
}

void StepMeeting::clear(int64_t generation) {
  std::map<MeetingNumber, Given> former;
  {
    const std::lock_guard lock(mutex_);
    former.swap(meetings_);
    generation_ = generation;
  }
  for (const auto& [meeting, given] : former) {
    for (const auto& [share, answer] : given.waiting) answer(std::nullopt);
  }
}

}  // namespace tandem::distribute
