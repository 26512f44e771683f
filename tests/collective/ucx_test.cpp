/// The exchanges of processes over UCX, in one process: a thread and a transport per rank.
#include <array>
#include <chrono>
#include <cstdlib>

#include "collective/exchanger.h"
#include "collective/group_contract.h"
#include "tandem/cluster.h"

namespace tandem::contract {
namespace {

/// What the cluster does for its groups, done by memory that the ranks share.
struct SharedTexts {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> texts;
  int present = 0;
};

class UcxGroup final : public op::Group {
 public:
  UcxGroup(std::unique_ptr<collective::Transport> transport,
           const collective::ExchangerOptions& options, std::shared_ptr<SharedTexts> texts,
           std::shared_ptr<std::vector<std::weak_ptr<UcxGroup>>> all)
      : rank_(options.rank),
        size_(options.size),
        texts_(std::move(texts)),
        all_(std::move(all)),
        exchanger_(std::move(transport), options) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  Ticket start(const op::Exchange& exchange) override { return exchanger_.start(exchange); }
  void wait(Ticket ticket) override { exchanger_.wait(ticket); }
  void send(const op::PeerMessage& message) override { exchanger_.send(message); }
  void receive(const op::PeerMessage& message) override { exchanger_.receive(message); }
  std::vector<std::string> gather_texts(std::string_view, std::string text) override {
    std::unique_lock lock(texts_->mutex);
    texts_->texts.resize(static_cast<size_t>(size_));
    texts_->texts[static_cast<size_t>(rank_)] = std::move(text);
    ++texts_->present;
    texts_->changed.notify_all();
    texts_->changed.wait(lock, [&] { return texts_->present == size_; });
    return texts_->texts;
  }
  void abort(std::string_view reason) override {
    const auto error =
        std::make_exception_ptr(Aborted(describe(rank_) + ": " + std::string(reason)));
    for (const auto& entry : *all_) {
      if (const auto group = entry.lock()) group->exchanger_.fail(error);
    }
  }
  void note_progress(std::string_view, std::int64_t) override {}
  void meet() { exchanger_.meet(); }

 private:
  int rank_;
  int size_;
  std::shared_ptr<SharedTexts> texts_;
  std::shared_ptr<std::vector<std::weak_ptr<UcxGroup>>> all_;
  collective::Exchanger exchanger_;
};

Groups make_groups(const collective::TransportOptions& kind, int size,
                   std::chrono::milliseconds patience) {
  // As a launcher does. It holds from the first exchange of the process on.
  if (size > core::available_cores()) setenv("TANDEM_SPIN", "0", 0);
  std::vector<std::unique_ptr<collective::Transport>> transports;
  for (int r = 0; r < size; ++r) transports.push_back(collective::open_transport(kind));
  for (auto& transport : transports) {
    for (int r = 0; r < size; ++r) {
      if (transport == transports[static_cast<size_t>(r)]) continue;
      const std::string wrong =
          transport->connect(r, transports[static_cast<size_t>(r)]->address());
      if (!wrong.empty()) throw Unavailable(wrong);
    }
  }
  const auto texts = std::make_shared<SharedTexts>();
  const auto all = std::make_shared<std::vector<std::weak_ptr<UcxGroup>>>();
  Groups groups;
  for (int r = 0; r < size; ++r) {
    collective::ExchangerOptions options{
        .rank = r, .size = size, .tag_seed = 0x5eed, .timeout = patience};
    const auto group = std::make_shared<UcxGroup>(std::move(transports[static_cast<size_t>(r)]),
                                                  options, texts, all);
    all->push_back(group);
    groups.push_back(group);
  }
  on_all(groups, [](op::Group& group) { static_cast<UcxGroup&>(group).meet(); });
  return groups;
}

GroupKind kind_of(const std::string& transport) {
  return {transport, [transport](int size, std::chrono::milliseconds patience) {
            return make_groups({.kind = transport}, size, patience);
          }};
}

/// Shared memory between processes that may not read each other.
GroupKind shm_without_reading() {
  return {"shm_without_reading", [](int size, std::chrono::milliseconds patience) {
            return make_groups({.kind = "shm", .read_neighbours = false}, size, patience);
          }};
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<GroupKind, int>>& info) {
  return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ucx, GroupContract,
                         testing::Combine(testing::Values(kind_of("tcp"), kind_of("shm")),
                                          testing::Range(1, 6)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(UcxThroughMemory, GroupContract,
                         testing::Combine(testing::Values(shm_without_reading()),
                                          testing::Values(3)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Ucx, GroupFaults,
                         testing::Combine(testing::Values(kind_of("tcp"), kind_of("shm")),
                                          testing::Values(2, 3, 4, 5)),
                         name_of_case);

TEST(OpenTransport, NamesTheKindsThereAre) {
  try {
    collective::open_transport({.kind = "pigeons"});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "transport: there is no 'pigeons'; there are auto, tcp and shm");
  }
}

TEST(OpenTransport, NamesAValueOfItsVariableThatThereIsNot) {
  setenv("TANDEM_READ_NEIGHBOURS", "perhaps", 1);
  try {
    collective::open_transport({.kind = "shm"});
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "transport: TANDEM_READ_NEIGHBOURS is 'perhaps', 0 and 1 are accepted");
  }
  unsetenv("TANDEM_READ_NEIGHBOURS");
}

/// Two transports that are connected, as ranks 0 and 1, and what one of them waits for.
struct TransportPair {
  using Request = collective::Transport::Request;
  using Status = collective::Transport::Status;

  explicit TransportPair(const std::string& kind)
      : sides{collective::open_transport({.kind = kind}),
              collective::open_transport({.kind = kind})} {
    for (size_t r = 0; r < 2; ++r) {
      const std::string wrong = sides[r]->connect(static_cast<int>(1 - r), sides[1 - r]->address());
      if (!wrong.empty()) throw Unavailable(wrong);
    }
  }

  /// Drives both until all of the requests of each are done.
  void finish(std::array<std::vector<Request>, 2> requests) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!requests[0].empty() || !requests[1].empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      for (size_t r = 0; r < 2; ++r) {
        sides[r]->progress();
        std::erase_if(requests[r], [&](Request request) {
          const Status status = request == nullptr ? Status::done : sides[r]->test(request);
          EXPECT_NE(status, Status::failed);
          return status != Status::pending;
        });
      }
    }
  }

  std::array<std::unique_ptr<collective::Transport>, 2> sides;
};

TEST(Neighbours, AMessageIsThereWhenItsSenderHasBeenToldSo) {
  using Status = collective::Transport::Status;
  TransportPair pair("shm");
  auto& [sender, receiver] = pair.sides;
  std::vector<char> small(64);
  pair.finish({{{sender->send(1, 1, small.data(), 64), sender->receive(2, small.data(), 64)},
                {receiver->send(0, 2, small.data(), 64), receiver->receive(1, small.data(), 64)}}});
  std::vector<char> from(size_t{1} << 20, 'x');
  std::vector<char> to(from.size());
  const auto sent = sender->send(1, 3, from.data(), from.size());
  // The sender's queue is full, so that an answer does not leave the receiver.
  constexpr size_t kMany = 1000;
  std::array<std::vector<TransportPair::Request>, 2> others;
  for (size_t i = 0; i < kMany; ++i) others[1].push_back(receiver->send(0, 4, small.data(), 64));
  const auto received = receiver->receive(3, to.data(), to.size());
  for (int i = 0; i < 1000; ++i) {
    receiver->progress();
    ASSERT_EQ(receiver->test(received), Status::pending);
  }
  for (size_t i = 0; i < kMany; ++i) others[0].push_back(sender->receive(4, small.data(), 64));
  others[0].push_back(sent);
  others[1].push_back(received);
  pair.finish(others);
  EXPECT_EQ(from, to);
}

TEST(PartOfPiece, PartsAreWholeChunksThatCoverThePiece) {
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{65}, int64_t{1000}, int64_t{100'000}}) {
    for (int size = 1; size < 8; ++size) {
      int64_t at = 0;
      for (int r = 0; r < size; ++r) {
        const auto [begin, end] = op::part_of_piece(count, r, size);
        EXPECT_EQ(begin, at);
        EXPECT_TRUE(begin % 64 == 0 || begin == count);
        EXPECT_LE(end - begin, (count / 64 / size + 2) * 64);
        at = end;
      }
      EXPECT_EQ(at, count);
    }
  }
}

}  // namespace
}  // namespace tandem::contract
