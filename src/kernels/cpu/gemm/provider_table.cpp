#include "kernels/cpu/gemm/provider_table.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sstream>

#include "op/hash.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tandem/providers.h"

namespace tandem::kernels::cpu {
namespace {

constexpr const char* kHeader = "tandem providers 1";
constexpr std::string_view kCpu = "cpu ";
constexpr int64_t kCollision = 256;  // Elements.
constexpr int kMostExponent = 30;

int exponent_of(int64_t size) {
  return static_cast<int>(std::lround(std::log2(static_cast<double>(std::max<int64_t>(size, 1)))));
}

/// The CPU's name, as the system calls it.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "an unknown CPU";
}

/// One line: "gemm float32 N T - 7 10 9 onednn"; the fourth word is "=" where rows collide.
std::string line_of(const GemmClass& c, const std::string& provider) {
  return fmt::format("gemm {} {} {} {} {} {} {} {}", name_of(c.dtype), c.transpose_a ? 'T' : 'N',
                     c.transpose_b ? 'T' : 'N', c.collides ? '=' : '-', c.m, c.n, c.k, provider);
}

bool parse(const std::string& line, GemmClass& c, std::string& provider) {
  std::istringstream words(line);
  std::string kind, dtype, a, b, rows;
  if (!(words >> kind >> dtype >> a >> b >> rows >> c.m >> c.n >> c.k >> provider)) return false;
  const auto one_of = [](const std::string& word, const char* off, const char* on, bool& result) {
    result = word == on;
    return result || word == off;
  };
  c.dtype = dtype == name_of(DType::float64) ? DType::float64 : DType::float32;
  std::string rest;
  const auto is_exponent = [](int e) { return e >= 0 && e <= kMostExponent; };
  return kind == "gemm" && dtype == name_of(c.dtype) && one_of(a, "N", "T", c.transpose_a) &&
         one_of(b, "N", "T", c.transpose_b) && one_of(rows, "-", "=", c.collides) &&
         is_exponent(c.m) && is_exponent(c.n) && is_exponent(c.k) && !(words >> rest);
}

void warn_of_other_cpu(const std::string& path, const std::string& measured_on) {
  const std::string here = cpu_name();
  if (measured_on == here) return;
  logging::write(logging::Level::warning,
                 fmt::format("provider table: '{}' was measured on {}, this is {}; 'tandem tune' "
                             "measures here",
                             path, measured_on, here));
}

/// The table in use; null for the static one.
class InUse {
 public:
  static InUse& instance() {
    static auto* in_use = new InUse;
    return *in_use;
  }

  std::shared_ptr<const ProviderTable> get() {
    std::call_once(from_environment_, [this] {
      if (const char* path = std::getenv("TANDEM_PROVIDERS"); path != nullptr && *path != '\0') {
        set(std::make_shared<const ProviderTable>(ProviderTable::read(path)));
      }
    });
    std::shared_lock lock(mutex_);
    return table_;
  }

  void set(std::shared_ptr<const ProviderTable> table) {
    std::unique_lock lock(mutex_);
    table_ = std::move(table);
  }

  void choose(std::shared_ptr<const ProviderTable> table) {
    std::call_once(from_environment_, [] {});  // What the program says counts.
    set(std::move(table));
  }

 private:
  std::once_flag from_environment_;
  std::shared_mutex mutex_;
  std::shared_ptr<const ProviderTable> table_;
};

}  // namespace

GemmClass class_of(const GemmShape& s) {
  const int64_t rows_apart = std::max(s.transpose_a ? s.lda : 0, s.ldb);
  return {s.dtype,          s.transpose_a,
          s.transpose_b,    rows_apart % kCollision == 0 && rows_apart > 0,
          exponent_of(s.m), exponent_of(s.n),
          exponent_of(s.k)};
}

GemmShape typical_shape(const GemmClass& c) {
  GemmShape s{c.dtype,           int64_t{1} << c.m, int64_t{1} << c.n,
              int64_t{1} << c.k, c.transpose_a,     c.transpose_b};
  const auto apart = [&](int64_t row) {
    const int64_t colliding = (row + kCollision - 1) / kCollision * kCollision;
    return c.collides ? colliding : (row % kCollision == 0 ? row + 16 : row);
  };
  s.lda = apart(s.transpose_a ? s.m : s.k);
  s.ldb = apart(s.transpose_b ? s.k : s.n);
  s.ldc = s.n;
  return s;
}

ProviderTable ProviderTable::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw NotFound(fmt::format(
        "provider table: '{}' cannot be read; 'tandem tune --out FILE' makes one", path));
  }
  std::string line;
  int number = 0;
  const auto refuse = [&](const char* what) {
    throw DataLoss(
        fmt::format("provider table: line {} of '{}', '{}', {}; 'tandem tune' writes it "
                    "anew",
                    number, path, line.substr(0, 80), what));
  };
  ProviderTable table;
  while (std::getline(file, line)) {
    ++number;
    if (number == 1) {
      if (line != kHeader) refuse("is not how such a file begins");
      continue;
    }
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with(kCpu)) {
      warn_of_other_cpu(path, line.substr(kCpu.size()));
      continue;
    }
    GemmClass shapes;
    std::string provider;
    if (!parse(line, shapes, provider)) refuse("is not 'gemm DTYPE N|T N|T -|= M N K PROVIDER'");
    if (!is_gemm_provider(provider)) refuse("names an unknown provider");
    table.set(shapes, provider);
  }
  if (number == 0) refuse("is missing: the file is empty");
  return table;
}

std::string ProviderTable::beside(const std::string& path) { return path + ".new"; }

void ProviderTable::check_writable(const std::string& path) {
  const std::string beside = ProviderTable::beside(path);
  if (!std::ofstream(beside, std::ios::trunc)) {
    throw Unavailable(fmt::format("tune: '{}' cannot be written", beside));
  }
  std::remove(beside.c_str());
}

void ProviderTable::write(const std::string& path) const {
  const std::string beside = ProviderTable::beside(path);
  {
    std::ofstream file(beside, std::ios::trunc);
    file << kHeader << "\n" << kCpu << cpu_name() << "\n";
    for (const auto& [shapes, provider] : choices_) file << line_of(shapes, provider) << "\n";
    if (!file.flush()) throw Unavailable(fmt::format("tune: '{}' cannot be written", beside));
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    throw Unavailable(fmt::format("tune: '{}' cannot be written", path));
  }
}

const std::string* ProviderTable::find(const GemmShape& shape) const {
  const auto found = choices_.find(class_of(shape));
  return found == choices_.end() ? nullptr : &found->second;
}

uint64_t ProviderTable::hash() const {
  size_t seed = choices_.size();
  for (const auto& [shapes, provider] : choices_) {
    for (char letter : line_of(shapes, provider)) seed = op::mixed(seed, size_t(letter));
  }
  return seed == 0 ? 1 : seed;
}

std::optional<std::string> measured_provider(const GemmShape& shape) {
  const auto table = InUse::instance().get();
  const std::string* found = table ? table->find(shape) : nullptr;
  return found == nullptr ? std::nullopt : std::optional(*found);
}

}  // namespace tandem::kernels::cpu

namespace tandem::providers {

void use_table(const std::string& path) {
  std::shared_ptr<const kernels::cpu::ProviderTable> table;
  if (!path.empty()) {
    table = std::make_shared<const kernels::cpu::ProviderTable>(
        kernels::cpu::ProviderTable::read(path));
  }
  kernels::cpu::InUse::instance().choose(std::move(table));
}

uint64_t table_hash() {
  const auto table = kernels::cpu::InUse::instance().get();
  return table ? table->hash() : 0;
}

}  // namespace tandem::providers
