#include "distribute/server/server_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "core/interruptible.h"
#include "distribute/strategy_body.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSilentAfter = 5s;
constexpr auto kAbsentAfter = 1s;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void warn(const std::string& text) { logging::write(logging::Level::warning, text); }

TensorTypes types_of_pushed(const ServerStep& step) {
  TensorTypes types;
  for (const PushedGradients& call : step.pushed()) {
    for (const Variable& variable : call.variables) types.push_back(type_of(variable));
  }
  return types;
}

std::string name_of(const ServerCluster& cluster, const std::string& job, int task) {
  return fmt::format("{} {} ({})", job, task, cluster.address(job, task).str());
}

}  // namespace

uint64_t new_incarnation() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

cluster::HostPort ServerCluster::address(const std::string& job, int task) const {
  return cluster::parse_host_port(config.spec.task_address(job, task),
                                  fmt::format("{} {}", job, task));
}

std::optional<ServerCluster> server_cluster_from(const ParameterServerOptions& options) {
  const cluster::Environment environment = cluster::process_environment();
  ServerCluster found;
  if (options.cluster_resolver) {
    const cluster_resolver::ClusterResolver& resolver = *options.cluster_resolver;
    found.config = {resolver.cluster_spec(), resolver.task_type(), resolver.task_id()};
  } else if (const auto text = environment.find("TF_CONFIG"); text != environment.end()) {
    found.config = cluster::task_from_tf_config(text->second).value_or(cluster::TaskConfig{});
  }
  if (found.servers() == 0) return std::nullopt;
  for (const char* job : {"chief", "worker"}) {
    if (found.config.spec.num_tasks(job) > 0) continue;
    throw InvalidArgument(fmt::format(
        "ParameterServerStrategy: the cluster has {} tasks ps and no {}", found.servers(), job));
  }
  if (const int chiefs = found.config.spec.num_tasks("chief"); chiefs > 1) {
    throw InvalidArgument(fmt::format(
        "ParameterServerStrategy: the cluster has {} tasks chief, 1 is accepted", chiefs));
  }
  found.own_address();  // Throws where there is no such task.
  found.patience = options.patience;
  const std::string id = fmt::format("servers of {}", found.config.spec.task_address("chief", 0));
  found.service = cluster::service_options_from(environment, id);
  return found;
}

PatientLine::PatientLine(const ServerCluster& cluster, const std::string& job, int task)
    : line_(name_of(cluster, job, task), cluster.address(job, task), cluster.service,
            cluster.config.job, cluster.config.task),
      patience_(cluster.patience) {}

PatientLine::Question PatientLine::ask(cluster::ServiceMessage message,
                                       cluster::AnswerPlacesPtr places) {
  Question question{message, places, {}};
  question.answer = line_.ask(std::move(message), std::move(places));
  return question;
}

cluster::ServiceText PatientLine::wait(Question& question, std::chrono::nanoseconds patience,
                                       std::chrono::nanoseconds silence) {
  const auto start = Clock::now();
  auto connected = start;
  bool is_told = false;
  const auto tell = [&](const std::string& what) {
    if (!std::exchange(is_told, true)) {
      warn(fmt::format("{}; waiting for it up to {:.0f} s", what, seconds_of(patience)));
    }
  };
  for (;;) {
    if (question.answer.wait_for(core::kLookEvery) == std::future_status::ready) {
      try {
        cluster::ServiceText text = question.answer.get();
        if (is_told) {
          warn(fmt::format("{} is back after {:.1f} s", name(), seconds_of(Clock::now() - start)));
        }
        return text;
      } catch (const Unavailable& error) {
        tell(error.what());
      }
      std::this_thread::sleep_for(50ms);
      question.answer = line_.ask(question.message, question.places);
    }
    if (core::InterruptibleWaits::are_on()) interruption::look();
    const auto waited = Clock::now() - start;
    const bool is_there = line_.is_connected();
    if (waited > kSilentAfter || (!is_there && waited > kAbsentAfter)) {
      tell(fmt::format("{} {} for {:.0f} s", name(),
                       is_there ? "has not answered" : "cannot be reached", seconds_of(waited)));
    }
    if (waited < patience) {
      if (is_there && Clock::now() - connected > silence) {
        line_.cut();  // Which answers the question: it is asked again.
        connected = Clock::now();
      }
      continue;
    }
    line_.cut();
    if (!is_there) {
      throw Unavailable(fmt::format("{} is gone since {:.0f} s", name(), seconds_of(waited)));
    }
    throw DeadlineExceeded(
        fmt::format("{} has not answered for {:.0f} s", name(), seconds_of(waited)));
  }
}

std::optional<cluster::ServiceText> PatientLine::try_once(std::string question,
                                                          std::chrono::nanoseconds limit) {
  try {
    std::future<cluster::ServiceText> answer = line_.ask({std::move(question), {}});
    if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
  } catch (const Unavailable&) {
  }
  return std::nullopt;
}

std::shared_ptr<devices::MappedMemory> memory_for_states(uint64_t bytes) {
  constexpr uint64_t kMostInMemory = uint64_t{16} << 20;
  return bytes > kMostInMemory ? devices::MappedMemory::in_file(bytes)
                               : devices::MappedMemory::sparse(bytes);
}

MessageWriter question_of(ServerQuestion kind, int64_t session) {
  MessageWriter question;
  question.add(kind).add(session);
  return question;
}

std::string plain_answer(ServerAnswer kind, std::string_view text) {
  MessageWriter answer;
  return answer.add(kind).add_text(text).take();
}

std::vector<std::unique_ptr<RangeServer>> make_servers(
    const Strategy& strategy, const ServerStep& step, const ParameterServerOptions& options,
    int servers, const std::vector<devices::DevicePtr>& devices) {
  const ParameterLayout layout(types_of_pushed(step), servers, options.partitioner);
  const LedgerOptions rules{.synchronous = options.staleness == 0,
                            .shares = shares_of(options),
                            .damping = options.damping,
                            .drop_older_than = options.drop_older_than};
  std::vector<std::unique_ptr<RangeServer>> made;
  for (int s = 0; s < servers; ++s) {
    auto replica = std::make_shared<graph::Replicas>(
        graph::Replicas{.devices = {devices[static_cast<size_t>(s) % devices.size()]},
                        .owner = strategy.body().targets().owner,
                        .single_threaded = options.reproducible});
    made.push_back(std::make_unique<RangeServer>(strategy, std::move(replica), step, layout, s,
                                                 rules, options.sparse_update));
  }
  return made;
}

void append_norm_part(MessageWriter& writer, const RangeServer::NormPart& part) {
  writer.add_list(part.squares).add_text(part.elements);
}

RangeServer::NormPart read_norm_part(MessageReader& reader) {
  RangeServer::NormPart part{.squares = reader.read_list<double>()};
  part.elements = reader.read_text();
  return part;
}

std::string explained(const ParameterServerOptions& options, std::string_view where) {
  const std::string bound = options.staleness == unbounded
                                ? "workers never wait for each other"
                                : fmt::format("staleness {}", options.staleness);
  return fmt::format("{} workers and {} servers {}; {}\n", options.workers, options.servers, where,
                     bound);
}

std::string explained(std::string_view name, const RangeServer& server) {
  size_t bytes = 0;
  for (const RangePiece& piece : server.pieces()) bytes += piece.bytes();
  return fmt::format("  {} has {} bytes in {} pieces\n", name, bytes, server.pieces().size());
}

std::string facts_of(const ServerStep& step,
                     const std::vector<std::unique_ptr<RangeServer>>& servers) {
  std::string text = fmt::format("version {}\n", TANDEM_VERSION);
  for (const PushedGradients& call : step.pushed()) {
    for (const Variable& variable : call.variables) {
      text += fmt::format("variable {} {}\n", variable.name(), type_of(variable).str());
    }
  }
  for (const AssignedVariable& one : step.assigned()) {
    text += fmt::format("assigned {} of {} elements\n", one.range.name(), one.range.count);
  }
  for (size_t s = 0; s < servers.size(); ++s) {
    for (const StoreRange& range : servers[s]->state()) {
      text += fmt::format("server {} has {} of {}\n", s, range.count, range.name());
    }
  }
  return text;
}

std::string difference_to_chief(std::string_view facts, std::string_view chiefs_facts) {
  std::istringstream here{std::string(facts)};
  std::istringstream there{std::string(chiefs_facts)};
  const std::string end = "nothing more";
  for (std::string own = end, its = end;; own = end, its = end) {
    const bool has_more = static_cast<bool>(std::getline(here, own));
    const bool has_other = static_cast<bool>(std::getline(there, its));
    if (!has_more && !has_other) return {};
    if (!has_more) own = end;
    if (!has_other) its = end;
    if (own != its) return fmt::format("'{}' where the chief has '{}'", own, its);
  }
}

std::string random_state_text() {
  const runtime::RandomState own = runtime::random_state();
  return fmt::format("{} {} {} {} {}", own.calls, own.initial_calls, own.process_seed,
                     own.seed ? 1 : 0, own.seed.value_or(0));
}

void take_random_state(std::string_view text) {
  runtime::RandomState chief;
  int has_seed = 0;
  uint64_t seed = 0;
  std::istringstream in{std::string(text)};
  if (!(in >> chief.calls >> chief.initial_calls >> chief.process_seed >> has_seed >> seed)) {
    throw DataLoss(fmt::format("the chief says '{}' of its random numbers", text));
  }
  if (has_seed != 0) chief.seed = seed;
  chief.shared_calls = chief.calls;
  runtime::set_random_state(chief);
}

Strategy handle_of(const Strategy::Body& body) {
  return Strategy(std::shared_ptr<const Strategy::Body>(std::shared_ptr<void>(), &body));
}

}  // namespace tandem::distribute
