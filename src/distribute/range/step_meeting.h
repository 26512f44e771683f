/// Where the workers that share a step meet while they run it. What a layer such as batch
/// normalization needs of the whole batch is a sum over what all of them compute: each gives its
/// values for the first meeting of the step, then for the second, and so on. Once all shares have
/// given theirs, each gets the sums, in the order of collective/tree.h.
///
///   share 0   give 0 ---+---> sums 0   give 1 ---+---> sums 1   push
///   share 1        give 0 --> sums 0        give 1 --> sums 1   push
///
/// Who takes the place of a worker that died gives the same values once more, and gets at once what
/// the others have had. So the first values of a share count, and the sums are kept until somebody
/// gives values for a later step: then all have pushed their shares of this one. Any thread may
/// call it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "op/group.h"

namespace tandem::distribute {

struct MeetingNumber {
  int64_t generation = 0;  ///< The tickets' generation: see WorkTicket.
  int64_t step = 0;
  int64_t number = 0;  ///< The meeting's number within the step.

  auto operator<=>(const MeetingNumber&) const = default;
};

class StepMeeting {
 public:
  /// `shares` workers share each step.
  explicit StepMeeting(int shares) : shares_(static_cast<size_t>(shares)) {}

  /// Is called with the sums, as text_of_pieces() writes them; with nothing where the step is void.
  using Answer = std::function<void(const std::optional<std::string>& sums)>;

  /// A share's values. Those of an earlier step than others have given values for are void. Throws
  /// InvalidArgument where shares differ in what they give.
  void give(const MeetingNumber& meeting, int share, std::string values, Answer answer);

  /// What was given so far is void, and all that is of an earlier generation than this.
  void clear(int64_t generation);

 private:
  struct Given {
    std::map<int, std::string> values;  // By share.
    std::map<int, Answer> waiting;      // The last one who asked for a share.
    std::optional<std::string> sums;
  };
  /// Answers that are to be given when nothing is locked.
  struct Answers {
    std::optional<std::string> sums;
    std::vector<Answer> with_sums;
    std::vector<Answer> void_ones;
  };
  bool is_former(const MeetingNumber& meeting) const;
  void forget_steps_before(const MeetingNumber& step, Answers& answers);
  std::string sums_of(const Given& given) const;

  const size_t shares_;
  std::mutex mutex_;
  int64_t generation_ = 0;                   // The first that counts.
  std::map<MeetingNumber, Given> meetings_;  // All are of one step.
};

/// Values as a text, and back to where they were.
std::string text_of_pieces(std::span<const op::Piece> pieces);
void read_pieces(std::string_view text, std::span<const op::Piece> pieces);

}  // namespace tandem::distribute
