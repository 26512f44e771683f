// Where workers that share a step meet within it: all get the sums, whoever comes again, and nobody
// gets those of a step that is void.
#include "distribute/range/step_meeting.h"

#include <gtest/gtest.h>

#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using Doubles = std::vector<double>;

std::string text_of(Doubles values) {
  const op::Piece piece{values.data(), static_cast<int64_t>(values.size()), DType::float64};
  return text_of_pieces({&piece, 1});
}

/// What a share was answered: nothing yet, void, or sums.
struct Answered {
  bool is_there = false;
  std::optional<std::string> sums;

  StepMeeting::Answer answer() {
    return [this](const std::optional<std::string>& all) {
      is_there = true;
      sums = all;
    };
  }
  bool is_void() const { return is_there && !sums; }
  Doubles values(size_t count) const {
    Doubles read(count);
    const op::Piece piece{read.data(), static_cast<int64_t>(count), DType::float64};
    read_pieces(sums.value(), {&piece, 1});
    return read;
  }
};

TEST(StepMeeting, AllSharesGetTheSums) {
  StepMeeting meeting(3);
  std::vector<Answered> answered(3);
  for (int share : {2, 0, 1}) {
    EXPECT_FALSE(answered[2].is_there);
    meeting.give({0, 4, 0}, share, text_of({1.0 + share, 10}), answered[share].answer());
  }
  for (const Answered& each : answered) EXPECT_EQ(each.values(2), (Doubles{6, 30}));
  // The one that takes another's place gets at once what the others have had.
  Answered again;
  meeting.give({0, 4, 0}, 1, text_of({2, 10}), again.answer());
  EXPECT_EQ(again.values(2), (Doubles{6, 30}));
}

TEST(StepMeeting, AShareOfADeadWorkerMeetsInItsPlace) {
  StepMeeting meeting(2);
  Answered survivor, dead, heir;
  meeting.give({0, 4, 0}, 1, text_of({2}), dead.answer());
  // It dies before the others come, and its share is computed once more, in other bits perhaps.
  meeting.give({0, 4, 0}, 1, text_of({2.5}), heir.answer());
  meeting.give({0, 4, 0}, 0, text_of({1}), survivor.answer());
  EXPECT_EQ(survivor.values(1), Doubles{3});
  EXPECT_EQ(heir.values(1), Doubles{3});
  // In the next meeting the heir dies as well, before the sums are there, and again after that.
  Answered waits, second, third;
  meeting.give({0, 4, 1}, 0, text_of({10}), waits.answer());
  EXPECT_FALSE(waits.is_there);
  meeting.give({0, 4, 0}, 1, text_of({2}), second.answer());
  EXPECT_EQ(second.values(1), Doubles{3});
  meeting.give({0, 4, 1}, 1, text_of({20}), second.answer());
  EXPECT_EQ(second.values(1), Doubles{30});
  EXPECT_EQ(waits.values(1), Doubles{30});
  meeting.give({0, 4, 0}, 1, text_of({2}), third.answer());
  EXPECT_EQ(third.values(1), Doubles{3});
  meeting.give({0, 4, 1}, 1, text_of({21}), third.answer());
  EXPECT_EQ(third.values(1), Doubles{30});
}

TEST(StepMeeting, AStepThatOthersHaveLeftIsVoid) {
  StepMeeting meeting(2);
  Answered waits, next, former;
  meeting.give({0, 4, 0}, 0, text_of({1}), waits.answer());
  meeting.give({0, 5, 0}, 0, text_of({1}), next.answer());
  EXPECT_TRUE(waits.is_void());
  EXPECT_FALSE(next.is_there);
  meeting.give({0, 4, 1}, 1, text_of({1}), former.answer());
  EXPECT_TRUE(former.is_void());
}

TEST(StepMeeting, WhereServersGoBackTicketsBeforeThatAreVoid) {
  StepMeeting meeting(2);
  Answered waits, former, first, second;
  meeting.give({0, 9, 0}, 0, text_of({1}), waits.answer());
  meeting.clear(1);
  EXPECT_TRUE(waits.is_void());
  meeting.give({0, 9, 0}, 1, text_of({1}), former.answer());
  EXPECT_TRUE(former.is_void());
  meeting.give({1, 7, 0}, 0, text_of({1}), first.answer());
  meeting.give({1, 7, 0}, 1, text_of({2}), second.answer());
  EXPECT_EQ(first.values(1), Doubles{3});
}

TEST(StepMeeting, SharesOfDifferentProgramsAreNamed) {
  StepMeeting meeting(2);
  Answered first, second;
  meeting.give({0, 0, 0}, 0, text_of({1}), first.answer());
  const auto give = [&](int share, const std::string& values) {
    meeting.give({0, 0, 0}, share, values, second.answer());
  };
  EXPECT_TRUE(harness::throws<InvalidArgument>([&] { give(2, text_of({1})); }, {"share 2"}));
  EXPECT_TRUE(harness::throws<InvalidArgument>(
      [&] {
        give(1, text_of({1, 2}));
      },
      {"share 1", "different programs"}));
}

}  // namespace
}  // namespace tandem::distribute
