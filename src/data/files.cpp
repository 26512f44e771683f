// The source whose elements a function of the user's reads from files, one file after the other. It
// can be made of some of the files alone, so that processes read different ones.
#include "data/user_code.h"

namespace tandem::data {
namespace {

constexpr const char* kName = "from_files";

/// Goes through files. What is thrown gets the file's name before it.
class FileWalk {
 public:
  FileWalk(std::vector<std::string> paths, internal::FileReader read)
      : paths_(std::move(paths)), read_(std::move(read)) {}

  std::optional<Element> operator()() {
    for (; at_ < paths_.size(); ++at_) {
      if (std::optional<Element> element = next_of_file()) return element;
      next_ = nullptr;
    }
    return std::nullopt;
  }

 private:
  std::optional<Element> next_of_file() {
    try {
      if (!next_) next_ = read_(paths_[at_]);
      return next_();
    } catch (const Error& error) {
      error.rethrow_within(paths_[at_]);
      throw;
    } catch (const ForeignException&) {
      throw;
    } catch (const std::exception& error) {
      throw Unavailable(fmt::format("{}: {}", paths_[at_], error.what()));
    }
  }

  std::vector<std::string> paths_;
  internal::FileReader read_;
  size_t at_ = 0;
  internal::Generator next_;  // Reads the file whose turn it is.
};

class FileSource final : public Source {
 public:
  FileSource(std::vector<std::string> paths, internal::FileReader read)
      : paths_(std::move(paths)),
        read_(std::move(read)),
        elements_(generator(
            [paths = paths_, read = read_](int64_t) { return FileWalk(paths, read); }, kName)) {}

  std::string str() const override {
    return paths_.size() == 1 ? fmt::format("{}('{}')", kName, paths_[0])
                              : fmt::format("{}({} files, '{}' to '{}')", kName, paths_.size(),
                                            paths_.front(), paths_.back());
  }
  int64_t cardinality() const override { return kUnknown; }
  CursorPtr open(uint64_t epoch) const override { return elements_->open(epoch); }

  int64_t files() const override { return static_cast<int64_t>(paths_.size()); }

  SourcePtr of_files(const FileShare& share) const override {
    if (share.rows) {
      throw InvalidArgument(
          fmt::format("{}: files are dealt to processes, and no batch says how many elements of "
                      "them make one; batch the data set",
                      str()));
    }
    std::vector<std::string> own;
    for (auto i = static_cast<size_t>(share.first); i < paths_.size();
         i += static_cast<size_t>(share.step)) {
      own.push_back(paths_[i]);
    }
    return files_source(std::move(own), read_);
  }

 private:
  const std::vector<std::string> paths_;
  const internal::FileReader read_;
  const SourcePtr elements_;
};

}  // namespace

SourcePtr files_source(std::vector<std::string> paths, internal::FileReader read) {
  return std::make_shared<FileSource>(std::move(paths), std::move(read));
}

}  // namespace tandem::data
