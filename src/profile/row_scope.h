/// Rows of a profile that several threads write one after another, such as those of a pipeline's
/// stages, whose threads live for one step.
#pragma once

#include <memory>
#include <string>

namespace tandem::profile {

struct ProfileRow;

/// While it lives, intervals of this thread are on the row of this name, which is made where there
/// is none. Nothing happens where no profile is being taken.
class RowScope {
 public:
  explicit RowScope(const std::string& name);
  ~RowScope();
  RowScope(const RowScope&) = delete;
  RowScope& operator=(const RowScope&) = delete;

 private:
  std::string former_name_;
  std::shared_ptr<ProfileRow> former_;
  bool is_open_ = false;
};

}  // namespace tandem::profile
