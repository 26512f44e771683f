/// What the coordinator and its members tell each other. A frame on the wire:
///
///   type (1 byte) | number of fields (4 bytes) | for each field: its length (4 bytes,
///   little-endian), its bytes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cluster {

enum class FrameType : uint8_t {
  hello = 1,  ///< Member: protocol, cluster, purpose, rank, size, nonce.
  challenge,  ///< Coordinator: nonce, proof.
  proof,      ///< Member: proof; to join also host, process, task, address of the transport.
  refused,    ///< Coordinator: why, and "later" where it may be tried again.
  welcome,    ///< Coordinator: generation, tag seed, then per rank host, process, task, address.
  beat,       ///< Member: phase, step, seconds in it, the exchange it waits in, as in on_beat.
              ///< The coordinator answers with one.
  text,       ///< Member: number of the gathering, name, a piece of its text, "1" for the last.
  texts,    ///< Coordinator: number of the gathering, rank, a piece of its text, "1" for the last.
  trouble,  ///< Member: "lost" or "overdue", ranks, exchange, seconds, detail.
  abort,    ///< Member: reason.
  verdict,  ///< Coordinator: kind of the error, its text.
  leaving,  ///< Both: goes without an error.
};

struct Frame {
  FrameType type = FrameType::hello;
  std::vector<std::string> fields;

  std::string encode() const;
  /// A field, or nothing if there are fewer.
  const std::string& field(size_t i) const;
  int64_t number(size_t i) const;
};

/// Nothing if the bytes are no frame.
std::optional<Frame> decode(std::string_view bytes);

}  // namespace tandem::cluster
