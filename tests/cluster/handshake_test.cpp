/// What the coordinator lets in, told by what strangers send to it.
#include "cluster/handshake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "cluster/coordinator.h"
#include "cluster/stranger.h"

namespace tandem::cluster {
namespace {

TEST(Handshake, AReplayedProofLetsNobodyIn) {
  Coordinator coordinator(
      {.listen = "127.0.0.1:0", .cluster = "c", .size = 2, .secret = kSecret, .log = [](auto&) {}});
  Introduction who{"c", "join", 1, 2, make_nonce(), ""};
  // Somebody listens to a member that is let in,
  const auto member = Stranger::connect(coordinator.port());
  member->send(hello_of(who));
  const Frame challenge = member->hear();
  ASSERT_EQ(challenge.type, FrameType::challenge);
  who.coordinator_nonce = challenge.field(0);
  EXPECT_TRUE(equal_proofs(challenge.field(1), proof_of(kSecret, "coordinator", who)));
  const Frame proof{FrameType::proof,
                    {proof_of(kSecret, "member", who), "h", "1", "worker 1", "a"}};
  // and says the same again.
  const auto replay = Stranger::connect(coordinator.port());
  replay->send(hello_of(who));
  const Frame other = replay->hear();
  ASSERT_EQ(other.type, FrameType::challenge);
  EXPECT_NE(other.field(0), challenge.field(0)) << "nonces are used once";
  replay->send(proof);
  const Frame refused = replay->hear();
  EXPECT_EQ(refused.type, FrameType::refused);
  EXPECT_EQ(refused.field(0), "it does not know the cluster's secret");
  // The coordinator's own proof is none of a member.
  const auto mirror = Stranger::connect(coordinator.port());
  mirror->send(hello_of(who));
  mirror->send({FrameType::proof, {mirror->hear().field(1), "h", "1", "worker 1", "a"}});
  EXPECT_EQ(mirror->hear().type, FrameType::refused);
  for (const auto& each : {member, replay, mirror}) each->leave();
}

TEST(Handshake, LongAndStrangeIntroductionsAreRefused) {
  Coordinator coordinator(
      {.listen = "127.0.0.1:0", .cluster = "c", .size = 2, .secret = kSecret, .log = [](auto&) {}});
  Introduction who{"c", "join", 1, 2, make_nonce(), ""};
  Introduction long_name = who;
  long_name.cluster.assign(200 << 10, 'c');
  Introduction short_nonce = who;
  short_nonce.member_nonce = "1";
  for (const Introduction& strange : {long_name, short_nonce}) {
    const auto stranger = Stranger::connect(coordinator.port());
    stranger->send(hello_of(strange));
    EXPECT_EQ(stranger->hear().type, FrameType::refused);
    stranger->leave();
  }
  // A frame beyond what is taken at all, and one that speaks before it is known.
  const auto heavy = Stranger::connect(coordinator.port());
  heavy->send_bytes(std::string(2 * kMostFrameBytes, '\1'));
  EXPECT_NE(heavy->hear().type, FrameType::challenge);
  heavy->leave();
  const auto bold = Stranger::connect(coordinator.port());
  bold->send({FrameType::abort, {"the disk is full"}});
  EXPECT_EQ(bold->hear().type, FrameType::refused);
  bold->leave();
  EXPECT_FALSE(coordinator.verdict());
}

TEST(Frame, BytesThatAreNoneAreNothing) {
  const Frame frame{FrameType::text, {"7", "names", std::string(300, 'x'), ""}};
  const std::string bytes = frame.encode();
  const auto same = decode(bytes);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->type, frame.type);
  EXPECT_EQ(same->fields, frame.fields);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, length))) << length;
  }
  EXPECT_FALSE(decode(bytes + '\0'));
  std::mt19937 random(4);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    const auto found = decode(changed);
    if (!found) continue;
    size_t size = 5;
    for (const auto& field : found->fields) size += 4 + field.size();
    EXPECT_EQ(size, changed.size());
  }
}

}  // namespace
}  // namespace tandem::cluster
