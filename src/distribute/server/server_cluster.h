/// The tasks of a cluster with parameter servers, and what they tell each other.
///
///   asks            whom    question                                          answer
///   worker, server  chief   meet: session                                     random state, or
///                                                                             the end
///   server          chief   serving: session, incarnation, fingerprint,       accepted
///                           checksums of its state; every fifth of a second
///   worker          chief   join: session, incarnation, fingerprint           the chief's
///                                                                             incarnation
///   worker          chief   take: session, incarnation, what it has done      ticket, whether what
///                                                                             it has read is too
///                                                                             old, perhaps the
///                                                                             next one
///   worker          chief   beside: session, incarnation, what it has done    ticket of a step of
///                                                                             which it does a
///                                                                             share
///   worker          chief   next: session, incarnation                        perhaps the ticket
///                                                                             that it takes next
///   worker          chief   beat: session; every second                       accepted
///   worker          chief   failed: session, why                              accepted
///   worker, server  chief   follow: session                                   accepted, until the
///                                                                             session is over
///   worker, server  chief   result: session, step                             results of all
///                                                                             shares
///   worker, server  chief   values: session, steps, offset                    a part of all
///   states,
///                                                                             once the chief has
///                                                                             so many steps
///   worker, server  chief   states: session, 0, offset                        the same of a
///   session
///                                                                             that is over
///   worker          server  exchange: session, chief, stamp, gradients,       outcome, values
///                           the rows that it reads next
///   worker          server  pull: session, chief, generation, step, squares   version, values
///   worker, chief   server  norms: session, chief, step                       squares, or
///                                                                             gradients
///   worker          server  sum: session, chief, meeting, share, values       sums over shares
///   chief           server  read: session, chief, step, offset, squares       ledger, a part of
///                                                                             the state
///   chief           server  write: session, chief, the server's incarnation,  accepted
///                           ledger, generation, parts of the state
///   chief           server  peek: session, chief                              what steps assign
///   chief           server  save: session, chief, a file, parts of the state   checksums
///   chief           server  restore: session, chief, a file, what is in it     ledger, checksums
///
/// A session is what all tasks do together, such as a fit: the number of those before it in the
/// program, which is the same on all tasks. A question begins with its kind, an answer with a byte
/// that says which it is.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/service.h"
#include "device/mapped_memory.h"
#include "distribute/range/range_server.h"
#include "distribute/range/server_step.h"
#include "distribute/range/task_message.h"
#include "tandem/cluster.h"
#include "tandem/distribute/parameter_server.h"

namespace tandem::distribute {

enum class ServerQuestion : char {
  meet = 'M',
  serving = 'S',
  join = 'J',
  take = 'T',
  beside = 'A',
  next = 'N',
  beat = 'B',
  failed = 'F',
  follow = 'L',
  result = 'O',
  values = 'V',
  states = 'G',
  exchange = 'X',
  pull = 'P',
  norms = 'Q',
  sum = 'U',
  read = 'R',
  write = 'W',
  peek = 'K',
  save = 'C',
  restore = 'E',
};

enum class ServerAnswer : char {
  accepted = 'a',
  refused = 'r',     ///< And why.
  ask_again = 'w',   ///< Later.
  join_again = 'j',  ///< The chief does not know the worker, or the server another chief.
  end = 'e',         ///< The session is over: an error's text, a result, whether there are states.
};

/// A message has at most so much of a server's state: who reads it has little memory, perhaps.
inline constexpr size_t kStatePart = size_t{4} << 20;

/// The states of all servers at one time, one after another.
using ServerStates = std::shared_ptr<const devices::MappedMemory>;
/// Memory for so much of them.
std::shared_ptr<devices::MappedMemory> memory_for_states(uint64_t bytes);

/// Time stamps that tell one start of a task from another: the later one is larger.
uint64_t new_incarnation();

struct ServerCluster {
  cluster::TaskConfig config{};
  cluster::ServiceOptions service{};
  std::chrono::nanoseconds patience{};  ///< How long tasks wait for one that is gone.

  int workers() const { return config.spec.num_tasks("worker"); }
  int servers() const { return config.spec.num_tasks("ps"); }
  bool is_chief() const { return config.job == "chief"; }
  bool is_server() const { return config.job == "ps"; }
  cluster::HostPort address(const std::string& job, int task) const;
  cluster::HostPort own_address() const { return address(config.job, config.task); }
};

/// What the options' resolver, or without one TF_CONFIG, says; nothing where it names no task `ps`.
/// Throws InvalidArgument where there is no worker, and where there is not one chief.
std::optional<ServerCluster> server_cluster_from(const ParameterServerOptions& options);

/// A line to a task that may be away for a while: it is waited for, and asked again.
class PatientLine {
 public:
  PatientLine(const ServerCluster& cluster, const std::string& job, int task);

  const std::string& name() const { return line_.name(); }

  /// A question that was asked. Its parts must live until the answer is there.
  struct Question {
    cluster::ServiceMessage message;
    cluster::AnswerPlacesPtr places;
    std::future<cluster::ServiceText> answer;
  };
  Question ask(cluster::ServiceMessage message, cluster::AnswerPlacesPtr places = nullptr);
  /// The same once more.
  Question ask_again(Question question) {
    return ask(std::move(question.message), std::move(question.places));
  }

  /// Says in the log who is gone and how long it is waited for. Throws Unavailable after that, or
  /// DeadlineExceeded where the task is there and silent.
  cluster::ServiceText wait(Question& question) { return wait(question, patience_); }
  cluster::ServiceText wait(Question& question, std::chrono::nanoseconds patience) {
    return wait(question, patience, patience);
  }

  cluster::ServiceText answer_to(std::string question) {
    Question asked = ask({std::move(question), {}});
    return wait(asked);
  }
  /// Asks what is answered at once. Where it is not, the other side may be behind a cut cable, and
  /// another process in its place: the question is then asked over a new connection.
  cluster::ServiceText prompt_answer_to(std::string question) {
    return prompt_answer_to(std::move(question), patience_);
  }
  cluster::ServiceText prompt_answer_to(std::string question, std::chrono::nanoseconds patience) {
    Question asked = ask({std::move(question), {}});
    return wait(asked, patience, kLongSilence);
  }
  cluster::ServiceText prompt_wait(Question& question) {
    return wait(question, patience_, kLongSilence);
  }

  /// Does not wait for a task that is gone: nothing then.
  std::optional<cluster::ServiceText> try_once(std::string question,
                                               std::chrono::nanoseconds limit);

 private:
  static constexpr std::chrono::seconds kLongSilence{5};
  cluster::ServiceText wait(Question& question, std::chrono::nanoseconds patience,
                            std::chrono::nanoseconds silence);

  cluster::ServiceLine line_;
  const std::chrono::nanoseconds patience_;
};

/// A message that begins with a question and the session that it is of.
MessageWriter question_of(ServerQuestion kind, int64_t session);
std::string plain_answer(ServerAnswer kind, std::string_view text = {});

/// A server for each that there is, as the options lay out the variables that `step` changes.
std::vector<std::unique_ptr<RangeServer>> make_servers(
    const Strategy& strategy, const ServerStep& step, const ParameterServerOptions& options,
    int servers, const std::vector<devices::DevicePtr>& devices);

/// For people: how many workers and servers there are, where, and who waits for whom; and what one
/// of the servers has.
std::string explained(const ParameterServerOptions& options, std::string_view where);
std::string explained(std::string_view name, const RangeServer& server);

/// What a server tells for norms, in a message.
void append_norm_part(MessageWriter& writer, const RangeServer::NormPart& part);
RangeServer::NormPart read_norm_part(MessageReader& reader);

/// With staleness 0 all workers share each batch.
inline int shares_of(const ParameterServerOptions& options) {
  return options.staleness == 0 ? options.workers : 1;
}

/// What tasks must have in common to train together, a line for each fact.
std::string facts_of(const ServerStep& step,
                     const std::vector<std::unique_ptr<RangeServer>>& servers);
/// "'variable w float32[3]' where the chief has '..'", the first line in which they differ.
std::string difference_to_chief(std::string_view facts, std::string_view chiefs_facts);

/// All that random numbers to come depend on, as a text.
std::string random_state_text();
void take_random_state(std::string_view text);

/// The same strategy, which lives as long as its body does.
Strategy handle_of(const Strategy::Body& body);

}  // namespace tandem::distribute
