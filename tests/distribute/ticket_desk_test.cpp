// A chief that waits, for servers or for steps that nobody does, ends when somebody asks for it.
#include "distribute/server/ticket_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distribute/server/result_message.h"
#include "harness/fresh_devices.h"
#include "tandem/config.h"
#include "tandem/interruption.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

class TicketDesks : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    desk_.open_session();
    desk_.on_return = [](int, const TicketDesk::ServingProcess&) {};
  }
  void TearDown() override {
    desk_.end_session({}, {}, {});
    FreshDevices::TearDown();
  }

  std::string answer_to(const cluster::Asker& asker, MessageWriter& question) {
    std::string answer;
    desk_.on_question(asker, question.take(),
                      [&](const cluster::ServiceMessage& message) { answer = message.text; });
    return answer;
  }
  static ServerAnswer kind_of(const std::string& answer) {
    return answer.empty() ? ServerAnswer::ask_again : static_cast<ServerAnswer>(answer[0]);
  }

  void serve() {
    const auto waiting_for_server =
        std::async(std::launch::async, [&] { return desk_.wait_for_servers("facts").size(); });
    MessageWriter serving;
    do {
      serving = question_of(ServerQuestion::serving, desk_.session());
      serving.add(uint64_t{5}).add_text("facts").add_list(std::vector<uint64_t>());
    } while (kind_of(answer_to({"ps", 0, 1}, serving)) == ServerAnswer::ask_again);
    waiting_for_server.wait();
  }
  void join() {
    MessageWriter join = question_of(ServerQuestion::join, desk_.session());
    join.add(uint64_t{6}).add_text("facts");
    EXPECT_EQ(kind_of(answer_to(worker_, join)), ServerAnswer::accepted);
  }
  /// Tells that the last ticket is done, and takes the next.
  std::optional<WorkTicket> take(const std::optional<WorkTicket>& done = {}) {
    MessageWriter question = question_of(ServerQuestion::take, desk_.session());
    question.add(uint64_t{6}).add(int64_t{0}).add(false).add(done.has_value());
    if (done) {
      question.add(*done).add(true);
      append_tensors(question, {Tensor(static_cast<float>(done->number))});
    }
    const std::string answer = answer_to(worker_, question);
    MessageReader reader(answer);
    if (reader.read<ServerAnswer>() != ServerAnswer::accepted) return std::nullopt;
    return reader.read<WorkTicket>();
  }
  std::string result_of(int64_t step) {
    MessageWriter question = question_of(ServerQuestion::result, desk_.session());
    return answer_to(worker_, question.add(step));
  }

  const cluster::Asker worker_{"worker", 0, 2};
  TicketDesk desk_{{}, 1, 1};
};

TEST_F(TicketDesks, AWaitForServersCanBeInterrupted) {
  interruption::request();
  EXPECT_THROW(desk_.wait_for_servers("facts"), Interrupted);
}

TEST_F(TicketDesks, AWaitForStepsCanBeInterrupted) {
  const auto outcome = desk_.add({}, {}, 1);
  interruption::request();
  EXPECT_THROW(desk_.wait_for(*outcome), Interrupted);
  interruption::request();
  EXPECT_THROW(desk_.wait_for_all(), Interrupted);
  interruption::request();
  EXPECT_THROW(desk_.add({}, {}, 1), Interrupted);  // There is no room.
}

/// A program's tasks may start long before its first worker does, so the deadline of steps counts
/// from when that has come.
TEST_F(TicketDesks, TheDeadlineOfStepsCountsFromTheFirstWorker) {
  using namespace std::chrono_literals;
  config::set_wait_deadline(300ms);
  serve();
  const auto outcome = desk_.add({}, {}, 1);
  auto waiting = std::async(std::launch::async, [&] { desk_.wait_for(*outcome); });
  EXPECT_EQ(waiting.wait_for(900ms), std::future_status::timeout);
  join();
  EXPECT_THROW(waiting.get(), DeadlineExceeded);
}

TEST_F(TicketDesks, AWorkerThatWasReplacedFailsAlone) {
  serve();
  join();
  const auto outcome = desk_.add({}, {}, 1);
  const auto fail = [&](const cluster::Asker& asker) {
    MessageWriter failed = question_of(ServerQuestion::failed, desk_.session());
    failed.add_text("it was replaced by another process");
    answer_to(asker, failed);
  };
  const cluster::Asker former{"worker", 0, 1};
  MessageWriter comes_back = question_of(ServerQuestion::join, desk_.session());
  comes_back.add(uint64_t{4}).add_text("facts");
  EXPECT_EQ(kind_of(answer_to(former, comes_back)), ServerAnswer::refused);
  fail(former);
  EXPECT_FALSE(take(take()));
  desk_.wait_for(*outcome);
  fail(worker_);
  EXPECT_THROW(desk_.wait_for(*outcome), Aborted);
}

/// A worker whose connection ends when all is done has come to its end, perhaps. It is missed when
/// there is more to do.
TEST_F(TicketDesks, AWorkerThatLeavesBetweenEpochsIsMissedInTheNext) {
  std::vector<std::string> warnings;
  const auto former =
      logging::set_sink([&warnings](logging::Level level, std::string_view message) {
        if (level == logging::Level::warning) warnings.emplace_back(message);
      });
  serve();
  join();
  const auto outcome = desk_.add({}, {}, 1);
  EXPECT_FALSE(take(take()));
  desk_.on_gone(worker_);
  EXPECT_EQ(warnings, std::vector<std::string>());
  desk_.add({}, {}, 1);
  EXPECT_THAT(warnings, testing::ElementsAre(testing::HasSubstr("chief: worker 0 is gone")));
  logging::set_sink(former);
}

/// A server may lose all that was done since the chief had its values last.
TEST_F(TicketDesks, StepsFromLongAgoAreDoneAgainWhereAServerHasLostThem) {
  constexpr int64_t kSteps = 5000;
  serve();
  join();
  const auto held = desk_.add({}, {}, 2);
  std::optional<WorkTicket> ticket = take();
  for (int64_t step = 1; step < kSteps; ++step) {
    desk_.add({}, {}, 3);
    ticket = take(ticket);
    ASSERT_EQ(ticket->step(), step);
  }
  EXPECT_FALSE(take(ticket));
  // Results stay where the chief's program has them, too, and for a while.
  EXPECT_EQ(kind_of(result_of(0)), ServerAnswer::accepted);
  EXPECT_EQ(kind_of(result_of(kSteps - 1)), ServerAnswer::accepted);
  const std::string forgotten = result_of(1);
  EXPECT_EQ(kind_of(forgotten), ServerAnswer::refused);
  EXPECT_NE(forgotten.find("the results of step 1 are forgotten"), std::string::npos);
  EXPECT_EQ(kind_of(result_of(kSteps)), ServerAnswer::ask_again);
  EXPECT_EQ(desk_.reopen([](int64_t) { return true; }), kSteps);
  ticket = take();
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->step(), 0);
  EXPECT_EQ(take(ticket)->step(), 1);
}

}  // namespace
}  // namespace tandem::distribute
