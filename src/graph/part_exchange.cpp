#include "graph/part_exchange.h"

#include <cstring>

#include "graph/group_exchange.h"

namespace tandem::graph {
namespace {

constexpr const char* kProvider = "the processes";

template <class T>
const T* peer_in(const op::Launch& launch, int replica, size_t input) {
  return static_cast<const T*>(launch.peers[replica][launch.operands[input]]);
}

template <class T>
T* peer_out(const op::Launch& launch, int replica, size_t output) {
  const size_t operand = static_cast<size_t>(launch.inputs) + output;
  return static_cast<T*>(launch.peers[replica][launch.operands[operand]]);
}

/// The parts of a variable that the replicas have begin to go to all processes, into memory of the
/// first replica with room for them.
class StartedJoin final : public op::Executable {
 public:
  StartedJoin(const Program& program, const op::Signature& signature, std::string name)
      : runners_(program.runners()),
        part_(signature.inputs[0]),
        all_(signature.inputs[0].shape.total_extent() * runners_.all),
        name_(std::move(name)),
        number_(static_cast<size_t>(signature.attrs.get<int64_t>("number"))),
        tickets_(program.bucket_tickets()) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    char* const all = launch.out<char>(0);
    for (int r = 0; r < runners_.local; ++r) {
      std::memcpy(all + part_.bytes() * static_cast<size_t>(runners_.first + r),
                  peer_in<char>(launch, r, 0), part_.bytes());
    }
    if (tickets_->joins.size() <= number_) tickets_->joins.resize(number_ + 1);
    BucketTickets::Bucket& join = tickets_->joins[number_];
    join.pieces.assign(1, {all, all_, part_.dtype});
    join.ticket = runners_.group->start(
        {.kind = op::ExchangeKind::gather_parts, .pieces = join.pieces, .name = name_});
  }

  const char* provider() const override { return kProvider; }

 private:
  const Runners runners_;
  const op::TensorType part_;
  const int64_t all_;  // Elements.
  const std::string name_;
  const size_t number_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// Waits for the parts, and leaves what goes past the end of the variable.
class FinishedJoin final : public op::Executable {
 public:
  FinishedJoin(const Program& program, const op::Signature& signature)
      : runners_(program.runners()),
        bytes_(signature.outputs[0].bytes()),
        number_(static_cast<size_t>(signature.attrs.get<int64_t>("number"))),
        tickets_(program.bucket_tickets()) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    runners_.group->wait(tickets_->joins[number_].ticket);
    for (int r = 0; r < runners_.local; ++r) {
      void* const out = peer_out<void>(launch, r, 0);
      if (out != launch.in<void>(0)) std::memcpy(out, launch.in<void>(0), bytes_);
    }
  }

  const char* provider() const override { return kProvider; }

 private:
  const Runners runners_;
  const size_t bytes_;
  const size_t number_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// Gives each replica its parts of sums over all replicas. The first one of each process has the
/// sums of that process. They go by way of memory with room for all parts.
class SumToPart final : public op::Executable {
 public:
  SumToPart(const Program& program, const op::Signature& signature, std::string name)
      : runners_(program.runners()),
        wholes_(signature.inputs),
        parts_(signature.outputs),
        name_(std::move(name)),
        tickets_(program.bucket_tickets()) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    const auto all = static_cast<size_t>(runners_.all);
    size_t bytes = 0;
    for (const op::TensorType& part : parts_) bytes += part.bytes() * all;
    std::vector<char>& memory = tickets_->parts;
    if (memory.size() < bytes) memory.resize(bytes);
    std::vector<op::Piece>& pieces = tickets_->part_pieces;
    pieces.clear();
    char* at = memory.data();
    for (size_t i = 0; i < parts_.size(); ++i) {
      const size_t padded = parts_[i].bytes() * all;
      std::memcpy(at, launch.in<void>(static_cast<int>(i)), wholes_[i].bytes());
      std::memset(at + wholes_[i].bytes(), 0, padded - wholes_[i].bytes());
      pieces.push_back({at, parts_[i].shape.total_extent() * runners_.all, parts_[i].dtype});
      at += padded;
    }
    runners_.group->run({.kind = op::ExchangeKind::sum_parts, .pieces = pieces, .name = name_});
    for (size_t i = 0; i < parts_.size(); ++i) {
      const char* sums = static_cast<const char*>(pieces[i].data);
      for (int r = 0; r < runners_.local; ++r) {
        std::memcpy(peer_out<void>(launch, r, i),
                    sums + parts_[i].bytes() * static_cast<size_t>(runners_.first + r),
                    parts_[i].bytes());
      }
    }
  }

  const char* provider() const override { return kProvider; }

 private:
  const Runners runners_;
  const op::TensorTypes wholes_;
  const op::TensorTypes parts_;
  const std::string name_;
  const std::shared_ptr<BucketTickets> tickets_;
};

/// The whole of what each process along the mesh's axis of weights has a part of.
class ModelJoin final : public op::Executable {
 public:
  ModelJoin(const Program& program, const op::Signature& signature, std::string name)
      : group_(program.runners().along_model), part_(signature.inputs[0]), name_(std::move(name)) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    char* const whole = launch.out<char>(0);
    const auto place = [&](int rank) { return whole + part_.bytes() * static_cast<size_t>(rank); };
    std::memcpy(place(group_->rank()), launch.in<void>(0), part_.bytes());
    for (int root = 0; root < group_->size(); ++root) {
      const op::Piece piece{place(root), part_.shape.total_extent(), part_.dtype};
      group_->run({.kind = op::ExchangeKind::broadcast,
                   .pieces = {&piece, 1},
                   .root = root,
                   .name = name_});
    }
  }

  const char* provider() const override { return kProvider; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorType part_;
  const std::string name_;
};

/// This process's part of the sum over the processes along the mesh's axis of weights.
class ModelSumToPart final : public op::Executable {
 public:
  ModelSumToPart(const Program& program, const op::Signature& signature, std::string name)
      : group_(program.runners().along_model),
        whole_(signature.inputs[0]),
        part_(signature.outputs[0]),
        name_(std::move(name)),
        tickets_(program.bucket_tickets()) {}

  void run(const op::Launch& launch) const override {
    if (launch.part != 0) return;
    std::vector<char>& sum = tickets_->parts;
    if (sum.size() < whole_.bytes()) sum.resize(whole_.bytes());
    std::memcpy(sum.data(), launch.in<void>(0), whole_.bytes());
    const op::Piece piece{sum.data(), whole_.shape.total_extent(), whole_.dtype};
    group_->run({.kind = op::ExchangeKind::sum, .pieces = {&piece, 1}, .name = name_});
    std::memcpy(launch.out<void>(0),
                sum.data() + part_.bytes() * static_cast<size_t>(group_->rank()), part_.bytes());
  }

  const char* provider() const override { return kProvider; }

 private:
  const std::shared_ptr<op::Group> group_;
  const op::TensorType whole_;
  const op::TensorType part_;
  const std::string name_;
  const std::shared_ptr<BucketTickets> tickets_;
};

}  // namespace

bool is_part_exchange(const Node& node) {
  return node.op().name.starts_with("exchange_join") ||
         node.op().name.starts_with("exchange_sum_to_part");
}

op::ExecutablePtr prepare_part_exchange(const Program& program, const Node& node,
                                        std::string name) {
  const std::string& op = node.op().name;
  const op::Signature& signature = node.signature;
  if (op == "exchange_join_start") {
    return std::make_shared<StartedJoin>(program, signature, std::move(name));
  }
  if (op == "exchange_join_finish") return std::make_shared<FinishedJoin>(program, signature);
  if (op == "exchange_join_over_model") {
    return std::make_shared<ModelJoin>(program, signature, std::move(name));
  }
  if (op == "exchange_sum_to_part_over_model") {
    return std::make_shared<ModelSumToPart>(program, signature, std::move(name));
  }
  return std::make_shared<SumToPart>(program, signature, std::move(name));
}

}  // namespace tandem::graph
