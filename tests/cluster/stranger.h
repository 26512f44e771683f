/// A connection to a coordinator by which a test says what it likes.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/coordinator.h"

namespace tandem::cluster {

inline constexpr const char* kSecret = "0123456789abcdef";
inline constexpr std::chrono::seconds kPatience{20};

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

inline Frame hello_of(const Introduction& who) {
  return {FrameType::hello,
          {"tandem 1", who.cluster, who.purpose, std::to_string(who.rank), std::to_string(who.size),
           who.member_nonce}};
}

/// Proves that it knows the secret; the coordinator lets it in.
inline void prove(Stranger& stranger, Introduction who) {
  who.member_nonce = make_nonce();
  stranger.send(hello_of(who));
  who.coordinator_nonce = stranger.hear().field(0);
  stranger.send(
      {FrameType::proof,
       {proof_of(kSecret, "member", who), "h", "1", "worker " + std::to_string(who.rank), "a"}});
}

}  // namespace tandem::cluster
