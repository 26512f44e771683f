#include "distribute/range/task_message.h"

#include "tandem/error.h"

namespace tandem::distribute {

std::string MessageWriter::take() { return std::move(bytes_); }

void MessageReader::fail() {
  throw DataLoss("parameter servers: a message is shorter than it should be");
}

}  // namespace tandem::distribute
