#include "distribute/server/side_workers.h"

#include <utility>

#include "distribute/server/remote_server.h"
#include "distribute/server/result_message.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 20ms;
/// How often a thread that waits for a ticket looks whether it is to end.
constexpr auto kLookEvery = 50ms;

}  // namespace

SideWorkers::SideWorkers(ServerStep& step, Process process)
    : step_(step), process_(std::move(process)) {
  const std::lock_guard lock(mutex_);
  start_thread();
}

SideWorkers::~SideWorkers() {
  ends_ = true;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

/// The holder of the mutex calls it.
void SideWorkers::start_thread() {
  ++idle_;
  threads_.emplace_back([this, number = static_cast<int>(threads_.size()) + 1] { work(number); });
}

void SideWorkers::work(int number) {
  try {
    std::unique_ptr<ServerWorker> worker;
    ServerLinks links;
    uint64_t chief = 0;
    std::optional<Done> done;
    while (const std::optional<Taken> taken = take(done)) {
      {
        const std::lock_guard lock(mutex_);
        const bool has_room = static_cast<int>(threads_.size()) < process_.most;
        if (--idle_ == 0 && has_room && !is_closed_) start_thread();
      }
      if (!worker) {
        worker = process_.make_worker(number);
        links = process_.make_links();
      }
      // A ticket of one that came meanwhile is void to servers that know the other.
      if (std::exchange(chief, process_.chief_of_tickets()) != chief) {
        for (const auto& link : links) static_cast<RemoteServer&>(*link).set_chief(chief);
      }
      std::optional<Tensors> results;
      if (const auto batch = process_.find_batch(taken->ticket)) {
        results =
            worker->run(step_, links, *batch, taken->ticket, taken->random, process_.before_step);
      }
      if (!results) std::this_thread::sleep_for(kPause);
      done = Done{taken->ticket, results.has_value(), results.value_or(Tensors())};
      const std::lock_guard lock(mutex_);
      ++idle_;
    }
  } catch (...) {
    process_.tell_failure();
  }
}

/// Tells what was done last, and waits for a ticket; none where the session is over, or the process
/// leaves.
std::optional<SideWorkers::Taken> SideWorkers::take(std::optional<Done>& done) {
  while (!ends_) {
    MessageWriter question = question_of(ServerQuestion::beside, process_.session);
    question.add(process_.incarnation).add(done.has_value());
    if (done) {
      question.add(done->ticket).add(done->is_made);
      append_tensors(question, done->results);
    }
    const std::optional<cluster::ServiceText> text = answer_to(question.take());
    if (!text) break;
    MessageReader reader(text->view());
    switch (reader.read<ServerAnswer>()) {
      case ServerAnswer::accepted: {
        done.reset();
        const auto ticket = reader.read<WorkTicket>();
        return Taken{ticket, reader.read<op::RandomRun>()};
      }
      case ServerAnswer::ask_again:
        done.reset();
        break;
      case ServerAnswer::join_again:  // The worker itself does.
        done.reset();
        std::this_thread::sleep_for(kPause);
        break;
      case ServerAnswer::refused:
        throw FailedPrecondition(std::string(reader.read_text()));
      case ServerAnswer::end:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Waits for a chief that is gone for as long as the worker does.
std::optional<cluster::ServiceText> SideWorkers::answer_to(std::string question) const {
  PatientLine::Question asked = process_.chief.ask({std::move(question), {}});
  while (!ends_) {
    if (asked.answer.wait_for(kLookEvery) != std::future_status::ready) continue;
    try {
      return asked.answer.get();
    } catch (const Unavailable&) {
      std::this_thread::sleep_for(kLookEvery);
      asked = process_.chief.ask_again(std::move(asked));
    }
  }
  return std::nullopt;
}

}  // namespace tandem::distribute
