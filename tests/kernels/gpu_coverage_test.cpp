// Which ops GPUs have kernels for: all but those that docs/gpu.md lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels {
namespace {

bool has_kernel(const op::Registry& registry, const std::string& op, const char* backend) {
  return std::ranges::any_of(all_dtypes(),
                             [&](DType dtype) { return registry.has_kernel(op, backend, dtype); });
}

/// The ops between the two marks of the document, in backquotes.
std::set<std::string> listed() {
  std::ifstream file(TANDEM_SOURCE_DIR "/docs/gpu.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const size_t begin = all.find("<!-- ops without a kernel -->");
  const size_t end = all.find("<!-- end -->");
  std::set<std::string> names;
  for (size_t at = begin; (at = all.find('`', at)) < end;) {
    const size_t close = all.find('`', at + 1);
    names.insert(all.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  return names;
}

TEST(GpuCoverage, TheDocumentListsWhatIsMissing) {
  const op::Registry& registry = op::Registry::instance();
  std::set<std::string> missing;
  for (const std::string& op : registry.op_names()) {
    if (!has_kernel(registry, op, "cpu")) continue;  // A view, or control flow.
    if (!has_kernel(registry, op, "gpu")) missing.insert(op);
  }
  EXPECT_EQ(missing, listed());
}

}  // namespace
}  // namespace tandem::kernels
