#include "tandem/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tandem::logging {
namespace {

struct Message {
  Level level;
  std::string text;
  bool operator==(const Message&) const = default;
};

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    former_ = set_sink([this](Level level, std::string_view message) {
      messages_.push_back({level, std::string(message)});
    });
  }
  void TearDown() override {
    set_sink(former_);
    set_level(Level::info);
  }

  std::vector<Message> messages_;

 private:
  Sink former_;
};

TEST_F(LogTest, MessagesReachTheSinkWithTheirLevelInOrder) {
  write(Level::warning, "first");
  write(Level::info, "second");
  write(Level::error, "third");
  EXPECT_EQ(messages_,
            (std::vector<Message>{
                {Level::warning, "first"}, {Level::info, "second"}, {Level::error, "third"}}));
}

TEST_F(LogTest, UnlessAskedForDebugMessagesAreDropped) {
  write(Level::debug, "dropped");
  EXPECT_TRUE(messages_.empty());
  set_level(Level::debug);
  write(Level::debug, "kept");
  EXPECT_EQ(messages_, (std::vector<Message>{{Level::debug, "kept"}}));
}

TEST_F(LogTest, MessagesBelowTheLevelAreDropped) {
  const std::vector<Level> levels{Level::debug, Level::info, Level::warning, Level::error};
  for (Level least : levels) {
    set_level(least);
    messages_.clear();
    for (Level level : levels) write(level, "message");
    for (const Message& message : messages_) EXPECT_GE(message.level, least);
    EXPECT_EQ(messages_.size(), levels.size() - static_cast<size_t>(least));
  }
}

TEST_F(LogTest, SettingASinkReturnsTheFormerOne) {
  std::string seen;
  Sink former = set_sink([&](Level, std::string_view message) { seen = message; });
  write(Level::info, "to the new one");
  EXPECT_EQ(seen, "to the new one");
  EXPECT_TRUE(messages_.empty());

  set_sink(std::move(former));
  write(Level::info, "to the former one");
  EXPECT_EQ(seen, "to the new one");
  EXPECT_EQ(messages_, (std::vector<Message>{{Level::info, "to the former one"}}));
}

TEST_F(LogTest, WithoutASinkMessagesGoToStandardErrorAlone) {
  set_sink({});
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  write(Level::warning, "low on paper");
  write(Level::debug, "dropped");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tandem warning: low on paper\n");
  EXPECT_TRUE(messages_.empty());
}

TEST_F(LogTest, OneThreadAtATimeIsInTheSink) {
  std::atomic<int> inside{0};
  std::atomic<int> met{0};
  int count = 0;  // Plain: the sink needs no lock of its own.
  set_sink([&](Level, std::string_view) {
    met += ++inside > 1;
    ++count;
    std::this_thread::yield();
    --inside;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) write(Level::info, "message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, 0);
  EXPECT_EQ(count, 400);
}

}  // namespace
}  // namespace tandem::logging
