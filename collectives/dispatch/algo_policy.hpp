// Which algorithms may be used, as HYMN_ALGO and the options say.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/request.hpp"

namespace hymn {

/// "all_reduce_mpi,broadcast_pairwise": all_reduce and broadcast may use these alone, collectives
/// that are not named may use any. "^all_reduce_mpi": any but these. "": any. Sends and receives
/// are not concerned.
class AlgoPolicy {
 public:
  AlgoPolicy() = default;
  /// Throws ConfigError for a list with nothing between two commas; `source` says where the text
  /// came from.
  static AlgoPolicy parse(std::string_view text, std::string_view source);

  /// Throws ConfigError for a name that is not among `known`, and lists those.
  void check_names(const std::set<std::string>& known) const;
  /// The only algorithms that this collective may use; empty: it may use others.
  std::vector<std::string> only_for(OpType type) const;
  /// `algorithm` is named as algorithm_name() does.
  bool allows(OpType type, std::string_view algorithm) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string source_;
  std::vector<std::string> names_;
  bool forbids_ = false;
};

}  // namespace hymn
