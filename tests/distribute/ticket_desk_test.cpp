// A chief that waits, for servers or for steps that nobody does, ends when somebody asks for it.
#include "distribute/server/ticket_desk.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
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

}  // namespace
}  // namespace tandem::distribute
