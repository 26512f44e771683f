/// Exchanges with other processes for replicas on devices whose memory the host does not work in:
/// their values come to the host's memory, which the processes' exchanges are of, and what is made
/// of them goes back.
#pragma once

#include <map>
#include <vector>

#include "execution/bound_replica.h"

namespace tandem::graph {

class HostedExchanges {
 public:
  /// The ranks are those of this process, bound; they and `program` outlive it.
  HostedExchanges(const Program& program, std::vector<BoundReplica>& ranks, int replicas)
      : program_(program), ranks_(ranks), replicas_(static_cast<size_t>(replicas)) {}

  /// Does one of the program's exchanges, when the devices have done all before it. What goes back
  /// is a command of each device's queue.
  void run(size_t instruction);

  /// False where an exchange reads nothing of the devices, and so need not wait for them.
  bool reads_devices(size_t instruction) const;

 private:
  using Bytes = std::vector<char>;
  /// The memory of an exchange's operands: of each replica, one for each input and output.
  using Operands = std::vector<std::vector<Bytes>>;

  const Node& node_of(size_t instruction) const {
    return program_.instructions()[instruction].node;
  }
  size_t bytes_of(ValueId value) const;
  void read(const BoundReplica& rank, ValueId value, size_t offset, Bytes& to, size_t bytes) const;
  void write(const BoundReplica& rank, ValueId value, const Bytes& from) const;
  void launch(size_t instruction, std::vector<std::vector<void*>>& addresses) const;
  void run_for_first(size_t instruction);
  void run_for_each(size_t instruction);
  void start_join(size_t instruction);
  void finish_join(size_t instruction);
  void gather(size_t instruction);

  const Program& program_;
  std::vector<BoundReplica>& ranks_;
  const size_t replicas_;
  std::map<size_t, Operands> operands_;  // By instruction.
  std::map<int64_t, Bytes> joining_;     // What is on its way, by the numbers of joins,
  std::vector<Bytes> free_;              // and memory for others.
};

}  // namespace tandem::graph
