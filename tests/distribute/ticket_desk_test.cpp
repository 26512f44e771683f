// A chief that waits, for servers or for steps that nobody does, ends when somebody asks for it.
#include "distribute/server/ticket_desk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "harness/fresh_devices.h"
#include "tandem/config.h"
#include "tandem/interruption.h"

namespace tandem::distribute {
namespace {

class TicketDesks : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    desk_.open_session();
  }
  void TearDown() override {
    desk_.end_session({}, {}, {});
    FreshDevices::TearDown();
  }

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
  desk_.on_return = [](int, const TicketDesk::ServingProcess&) {};
  const auto ask = [&](const cluster::Asker& asker, MessageWriter& question) {
    auto answer = ServerAnswer::refused;
    desk_.on_question(asker, question.take(), [&](const cluster::ServiceMessage& message) {
      answer = static_cast<ServerAnswer>(message.text[0]);
    });
    return answer;
  };
  const auto waiting_for_server =
      std::async(std::launch::async, [&] { return desk_.wait_for_servers("facts").size(); });
  MessageWriter serving;
  do {
    serving = question_of(ServerQuestion::serving, desk_.session());
    serving.add(uint64_t{5}).add_text("facts").add_list(std::vector<uint64_t>());
  } while (ask({"ps", 0, 1}, serving) == ServerAnswer::ask_again);
  waiting_for_server.wait();
  const auto outcome = desk_.add({}, {}, 1);
  auto waiting = std::async(std::launch::async, [&] { desk_.wait_for(*outcome); });
  EXPECT_EQ(waiting.wait_for(900ms), std::future_status::timeout);
  MessageWriter join = question_of(ServerQuestion::join, desk_.session());
  join.add(uint64_t{6}).add_text("facts");
  EXPECT_EQ(ask({"worker", 0, 2}, join), ServerAnswer::accepted);
  EXPECT_THROW(waiting.get(), DeadlineExceeded);
}

}  // namespace
}  // namespace tandem::distribute
