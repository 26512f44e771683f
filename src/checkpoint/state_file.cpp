#include "checkpoint/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>
#include <string>

#include "checkpoint/bundle_format.h"
#include "checkpoint/files.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::checkpoint {

bool is_complete(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  return std::filesystem::exists(index_name(checkpoint.string()), ignored);
}

namespace {

constexpr const char* kLatest = "model_checkpoint_path";
constexpr const char* kAll = "all_model_checkpoint_paths";
constexpr const char* kTimes = "all_model_checkpoint_timestamps";

std::filesystem::path state_path(const std::filesystem::path& folder) {
  return folder / "checkpoint";
}

std::filesystem::path folder_of(const std::filesystem::path& checkpoint) {
  return checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\{:03o}", code);
    } else {
      result += c;
    }
  }
  return result + '"';
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
    throw DataLoss(fmt::format("{} is not a text in quotes", text));
  }
  text = text.substr(1, text.size() - 2);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    if (++i == text.size()) throw DataLoss("a text ends within an escape");
    if (!is_octal(text[i])) {
      constexpr std::string_view kEscapes = "nrt\"'\\";
      constexpr std::string_view kMeanings = "\n\r\t\"'\\";
      const size_t at = kEscapes.find(text[i]);
      if (at == std::string_view::npos) {
        throw DataLoss(fmt::format("the escape \\{} is not known", text[i]));
      }
      result += kMeanings[at];
      continue;
    }
    int code = 0;
    const size_t end = std::min(text.size(), i + 3);
    for (; i < end && is_octal(text[i]); ++i) code = code * 8 + (text[i] - '0');
    --i;
    result += static_cast<char>(code);
  }
  return result;
}

double parse_time(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw DataLoss(fmt::format("{} is no time", text));
  }
  return value;
}

struct CheckpointState {
  std::string latest;
  std::vector<std::string> paths;
  std::vector<double> times;
};

CheckpointState parse(const std::string& text) {
  CheckpointState state;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.empty()) continue;
    if (colon == std::string::npos) throw DataLoss(fmt::format("'{}' has no name", line));
    const std::string name = line.substr(0, colon);
    const std::string_view value = std::string_view(line).substr(colon + 2);
    if (name == kLatest) state.latest = unquoted(value);
    if (name == kAll) state.paths.push_back(unquoted(value));
    if (name == kTimes) state.times.push_back(parse_time(value));
  }
  if (state.latest.empty()) throw DataLoss(fmt::format("there is no {}", kLatest));
  return state;
}

KeptCheckpoints read_or_forget(const std::filesystem::path& folder) {
  try {
    return read_state(folder);
  } catch (const DataLoss& error) {
    logging::write(logging::Level::warning,
                   fmt::format("save: {}: the file is begun anew", error.what()));
    return {};
  }
}

/// The index first: what is left of it is never taken for a checkpoint.
void remove_checkpoint(const std::filesystem::path& checkpoint) {
  remove_file(index_name(checkpoint.string()));
  const std::string data = checkpoint.filename().string() + ".data-";
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder_of(checkpoint), ignored)) {
    if (file.path().filename().string().starts_with(data)) remove_file(file.path());
  }
}

/// Whether a file belongs to one of the checkpoints `name`-N, or is the list of them, and is of no
/// use.
bool is_left_over(const std::filesystem::path& file, const std::string& name) {
  const std::string text = file.filename().string();
  if (text == state_path("").string() + kPartialSuffix) return true;
  if (!text.starts_with(name + "-")) return false;
  const size_t digits = name.size() + 1;
  const size_t end = text.find_first_not_of("0123456789", digits);
  if (end == digits || end == std::string::npos) return false;
  const std::string_view rest = std::string_view(text).substr(end);
  if (!rest.starts_with(".index") && !rest.starts_with(".data-")) return false;
  if (rest.ends_with(kPartialSuffix)) return true;
  return rest.starts_with(".data-") && !is_complete(file.parent_path() / text.substr(0, end));
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

KeptCheckpoints read_state(const std::filesystem::path& folder) {
  const std::filesystem::path path = state_path(folder);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    const CheckpointState state = parse(read_file(path));
    KeptCheckpoints kept;
    for (size_t i = 0; i < state.paths.size(); ++i) {
      if (state.paths[i] == state.latest) continue;
      kept.push_back({folder / state.paths[i], i < state.times.size() ? state.times[i] : 0});
    }
    const auto at = std::ranges::find(state.paths, state.latest) - state.paths.begin();
    const auto index = static_cast<size_t>(at);
    kept.push_back({folder / state.latest, index < state.times.size() ? state.times[index] : 0});
    return kept;
  } catch (const DataLoss& error) {
    throw DataLoss(fmt::format("{}: {}; remove the file, and restore a checkpoint by its own name",
                               path.string(), error.what()));
  }
}

void write_state(const std::filesystem::path& folder, const KeptCheckpoints& kept) {
  const auto name = [&](const KeptCheckpoint& checkpoint) {
    const bool inside = checkpoint.path.parent_path() == folder;
    return quoted(inside ? checkpoint.path.filename().string() : checkpoint.path.string());
  };
  std::string text = fmt::format("{}: {}\n", kLatest, name(kept.back()));
  for (const KeptCheckpoint& one : kept) text += fmt::format("{}: {}\n", kAll, name(one));
  for (const KeptCheckpoint& one : kept) text += fmt::format("{}: {:.6f}\n", kTimes, one.saved_at);
  write_file(state_path(folder), text);
}

void enter_checkpoint(const std::filesystem::path& path, size_t most) {
  const std::filesystem::path folder = path.parent_path();
  KeptCheckpoints kept = read_or_forget(folder);
  std::erase_if(
      kept, [&](const KeptCheckpoint& one) { return one.path == path || !is_complete(one.path); });
  kept.push_back({path, now()});
  write_state(folder, kept);
  if (kept.size() <= most) return;
  const auto first_kept = kept.end() - static_cast<std::ptrdiff_t>(most);
  for (auto one = kept.begin(); one != first_kept; ++one) remove_checkpoint(one->path);
  write_state(folder, {first_kept, kept.end()});
}

void sweep(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  std::vector<std::filesystem::path> left;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_left_over(file.path(), name)) left.push_back(file.path());
  }
  for (const auto& path : left) {
    try {
      remove_file(path);
    } catch (const Unavailable& error) {
      logging::write(logging::Level::warning, fmt::format("save: {}", error.what()));
    }
  }
}

}  // namespace tandem::checkpoint
