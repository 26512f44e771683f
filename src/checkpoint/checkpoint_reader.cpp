// CheckpointReader: looks into a checkpoint key by key, without the objects that it was saved from.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/bundle_reader.h"
#include "tandem/checkpoint.h"
#include "tandem/error.h"
#include "tensor/body.h"

namespace tandem::train {

std::vector<std::string> CheckpointReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : reader_->entries()) keys.push_back(key);
  return keys;
}

std::string CheckpointReader::dtype_name(const std::string& key) const {
  return checkpoint::type_name(reader_->entry(key).type);
}

Shape CheckpointReader::shape(const std::string& key) const { return reader_->entry(key).shape(); }

Tensor CheckpointReader::tensor(const std::string& key) const {
  const checkpoint::BundleEntry& entry = reader_->entry(key);
  const auto dtype = checkpoint::dtype_of_number(entry.type);
  if (!dtype) {
    throw Unimplemented(
        fmt::format("{}: key '{}': tensors of {} do not exist here; {}", reader_->prefix().string(),
                    key, checkpoint::type_name(entry.type), "strings are read with bytes()"));
  }
  auto body = new_body(devices::host_device(), *dtype, entry.shape());
  auto* data = static_cast<char*>(body->data());
  const checkpoint::BundleReader::Target target{key, data, {}};
  reader_->read({&target, 1});
  if (*dtype == DType::boolean) {
    // In C++ no byte but 0 and 1 may be a bool.
    std::for_each(data, data + body->bytes(), [](char& b) { b = b != 0 ? 1 : 0; });
  }
  return Tensor(std::move(body));
}

std::string CheckpointReader::bytes(const std::string& key) const {
  return reader_->read_string(key);
}

CheckpointReader load_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path prefix = path;
  if (std::filesystem::is_directory(path, ignored)) {
    const auto latest = latest_checkpoint(path);
    if (!latest) throw NotFound(fmt::format("load_checkpoint: {} has none", path.string()));
    prefix = *latest;
  }
  try {
    CheckpointReader reader;
    reader.reader_ = std::make_shared<checkpoint::BundleReader>(prefix);
    return reader;
  } catch (const Error& error) {
    error.rethrow_within("load_checkpoint");
    throw;
  }
}

}  // namespace tandem::train
