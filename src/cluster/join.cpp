#include "cluster/join.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>

#include "cluster/coordinator.h"
#include "cluster/member.h"
#include "cluster/tls_files.h"
#include "collective/exchanger.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::cluster {
namespace {

/// A cluster of one.
class SoloGroup final : public op::Group {
 public:
  explicit SoloGroup(const Cluster& cluster) : name_(cluster.task_name(0)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe(int) const override { return fmt::format("rank 0 ({})", name_); }
  Ticket start(const op::Exchange&) override {
    check();
    return ++ticket_;
  }
  void wait(Ticket) override { check(); }
  void send(const op::PeerMessage& message) override { refuse(message); }
  void receive(const op::PeerMessage& message) override { refuse(message); }
  std::vector<std::string> gather_texts(std::string_view, std::string text) override {
    check();
    return {std::move(text)};
  }
  void abort(std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = fmt::format("{}: {}", describe(0), reason);
  }
  void note_progress(std::string_view, std::int64_t) override {}

 private:
  void check() const {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw Aborted(*aborted_);
  }
  void refuse(const op::PeerMessage& message) const {
    check();
    throw InvalidArgument(
        fmt::format("message '{}': rank {} is none of 1 ranks", message.name, message.peer));
  }

  std::string name_;
  Ticket ticket_ = 0;
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;
};

/// Many processes: exchanges over a transport, and a coordinator that says how they end.
class ClusterGroup final : public op::Group {
 public:
  ClusterGroup(const Cluster& cluster, const JoinOptions& options,
               std::unique_ptr<Coordinator> coordinator,
               std::unique_ptr<collective::Transport> transport, std::unique_ptr<Member> member)
      : rank_(cluster.rank),
        size_(cluster.size),
        timeout_(options.timeout),
        coordinator_(std::move(coordinator)),
        member_(std::move(member)) {
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const std::string wrong =
          transport->connect(r, member_->members()[static_cast<size_t>(r)].address);
      if (wrong.empty()) continue;
      // It may have died meanwhile: the coordinator knows.
      std::rethrow_exception(member_
                                 ->judge({.kind = collective::ExchangeTrouble::Kind::peer_lost,
                                          .ranks = {r},
                                          .exchange = "connecting over " + options.transport,
                                          .detail = wrong})
                                 .error());
    }
    collective::ExchangerOptions exchanging{
        .rank = rank_, .size = size_, .tag_seed = member_->tag_seed(), .timeout = options.timeout};
    exchanging.judge = [this](const collective::ExchangeTrouble& trouble) {
      return member_->judge(trouble).error();
    };
    exchanger_ =
        std::make_unique<collective::Exchanger>(std::move(transport), std::move(exchanging));
    member_->begin_beats([this](const Verdict& verdict) { exchanger_->fail(verdict.error()); },
                         [this] { return exchanger_->waiting(); });
  }

  ~ClusterGroup() override {
    if (std::uncaught_exceptions() > 0) member_->abort("it left by an exception");
    // The member's thread asks the exchanger, so it ends first; what was sent leaves before it
    // does.
    exchanger_->finish();
    member_.reset();
    exchanger_.reset();
    coordinator_.reset();
  }

  /// Returns when connections to all are made.
  void meet() { exchanger_->meet(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe(int rank) const override { return member_->describe(rank); }
  Ticket start(const op::Exchange& exchange) override { return exchanger_->start(exchange); }
  void wait(Ticket ticket) override { exchanger_->wait(ticket); }
  void send(const op::PeerMessage& message) override { exchanger_->send(message); }
  void receive(const op::PeerMessage& message) override { exchanger_->receive(message); }
  std::vector<std::string> gather_texts(std::string_view name, std::string text) override {
    return member_->gather_texts(name, text, timeout_);
  }
  void abort(std::string_view reason) override { member_->abort(reason); }
  void note_progress(std::string_view phase, std::int64_t step) override {
    member_->note_progress(phase, step);
  }

 private:
  int rank_;
  int size_;
  std::chrono::nanoseconds timeout_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<collective::Exchanger> exchanger_;
};

/// Where the coordinator listens: at all addresses of the machine, unless it is for this one alone.
std::string listening_address(const HostPort& address) {
  return is_loopback(address.host) ? address.str() : fmt::format("[::]:{}", address.port);
}

}  // namespace

std::shared_ptr<op::Group> join(const Cluster& cluster, const JoinOptions& options) {
  if (cluster.size == 1) return std::make_shared<SoloGroup>(cluster);
  const Environment environment = process_environment();
  MemberOptions joining;
  joining.cluster = cluster;
  joining.secret = secret_from(environment);
  joining.tls = tls_from(environment);
  joining.join_timeout = options.join_timeout;
  check_may_listen(cluster.coordinator, joining.secret, environment);
  std::unique_ptr<Coordinator> coordinator;
  if (cluster.rank == 0 && !cluster.hosted) {
    coordinator = std::make_unique<Coordinator>(
        CoordinatorOptions{.listen = listening_address(cluster.coordinator),
                           .cluster = cluster.id,
                           .size = cluster.size,
                           .secret = joining.secret,
                           .tls = joining.tls});
  }
  auto transport =
      collective::open_transport({.kind = options.transport, .interfaces = options.interfaces});
  joining.address = transport->address();
  auto member = std::make_unique<Member>(joining);
  logging::write(logging::Level::info,
                 fmt::format("cluster: this is {} of {} by {}, generation {}, transport {}",
                             member->describe(cluster.rank), cluster.size, cluster.source,
                             member->generation(), options.transport));
  auto group = std::make_shared<ClusterGroup>(cluster, options, std::move(coordinator),
                                              std::move(transport), std::move(member));
  group->meet();
  return group;
}

}  // namespace tandem::cluster
