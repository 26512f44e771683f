/// What the coordinator lets in, told by what strangers send to it.
#include "cluster/handshake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>

#include "cluster/coordinator.h"

namespace tandem::cluster {
namespace {

constexpr const char* kSecret = "0123456789abcdef";
constexpr std::chrono::seconds kPatience{20};

/// A connection to a coordinator by which a test says what it likes.
class Stranger final : public FrameHandler, public std::enable_shared_from_this<Stranger> {
 public:
  static std::shared_ptr<Stranger> connect(int port) {
    auto stranger = std::make_shared<Stranger>();
    std::string error;
    stranger->stream_ =
        frame_plugin().connect("127.0.0.1:" + std::to_string(port), {}, stranger, error);
    EXPECT_NE(stranger->stream_, nullptr) << error;
    return stranger;
  }

  void on_frame(std::string frame) override {
    const std::lock_guard lock(mutex_);
    if (auto decoded = decode(frame)) heard_.push_back(std::move(*decoded));
    changed_.notify_all();
  }
  void on_end(const std::string&) override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void send(const Frame& frame) { stream_->send(frame.encode()); }
  void send_bytes(std::string bytes) { stream_->send(std::move(bytes)); }
  void leave() {
    stream_->cut();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return ended_; });
  }

  /// The next frame; of type `leaving` if the connection ends first.
  Frame hear() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return ended_ || next_ < heard_.size(); });
    return next_ < heard_.size() ? heard_[next_++] : Frame{FrameType::leaving, {}};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Frame> heard_;
  size_t next_ = 0;
  bool ended_ = false;
  std::shared_ptr<FrameStream> stream_;
};

Frame hello_of(const Introduction& who) {
  return {FrameType::hello,
          {"tandem 1", who.cluster, who.purpose, std::to_string(who.rank), std::to_string(who.size),
           who.member_nonce}};
}

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
