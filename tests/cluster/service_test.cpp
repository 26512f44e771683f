// Questions and answers between the tasks of a cluster, over gRPC.
#include "cluster/service.h"

#include <gtest/gtest.h>

#include <thread>

#include "cluster/handshake.h"
#include "cluster/stranger.h"

namespace tandem::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostPending = 64;

class Echo final : public ServiceHandler {
 public:
  void on_question(const Asker&, std::string_view question, Reply reply) override {
    reply({std::string(question), {}});
  }
  void on_gone(const Asker&) override {}
};

TEST(Service, WhoComesWhileManyWaitIsLetInLater) {
  const ServiceOptions options{.cluster = "c", .secret = kSecret};
  const ServiceHost host({"127.0.0.1", 0}, options, std::make_shared<Echo>());
  std::vector<std::shared_ptr<Stranger>> strangers;
  for (int i = 0; i < kMostPending; ++i) {
    strangers.push_back(Stranger::connect(host.port()));
    strangers.back()->send(
        Frame{FrameType::hello, {"tandem service 1", "c", "worker", "0", make_nonce()}});
  }
  for (const auto& stranger : strangers) EXPECT_EQ(stranger->hear().type, FrameType::challenge);

  ServiceLine line("ps 0", {"127.0.0.1", host.port()}, options, "worker", 1);
  EXPECT_THROW(line.ask({"what", {}}).get(), Unavailable);
  for (const auto& stranger : strangers) stranger->leave();
  std::string answer;
  for (const auto end = Clock::now() + kPatience; answer.empty() && Clock::now() < end;) {
    try {
      answer = line.ask({"what", {}}).get().view();
    } catch (const Unavailable&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  EXPECT_EQ(answer, "what");
}

TEST(Service, AStrangerIsRefusedForGood) {
  const ServiceHost host({"127.0.0.1", 0}, {.cluster = "c", .secret = kSecret},
                         std::make_shared<Echo>());
  ServiceLine line("ps 0", {"127.0.0.1", host.port()},
                   {.cluster = "c", .secret = "another secret, as long"}, "worker", 1);
  EXPECT_THROW(line.ask({"what", {}}).get(), FailedPrecondition);
}

}  // namespace
}  // namespace tandem::cluster
