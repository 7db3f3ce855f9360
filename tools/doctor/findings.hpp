// What `hymn doctor` can find, and what it has found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hymn {

enum class Severity : unsigned char { ok, note, warning, error };

std::string_view to_string(Severity severity) noexcept;

/// One kind of finding: everything about it that is always the same.
struct FindingKind {
  std::string_view id;  ///< "memory.shm-too-small"
  Severity severity = Severity::note;
  std::string_view consequence;
  std::string_view remedy;
};

/// All kinds, in the order in which findings of one severity are told.
std::span<const FindingKind> finding_kinds();

/// For severity ok the id is that of a subject ("memory"), and there is neither consequence nor
/// remedy.
struct Finding {
  FindingKind kind;
  std::string seen;
  std::vector<int> ranks;          ///< that it concerns; empty: see hosts
  std::vector<std::string> hosts;  ///< that it concerns; both empty: all
};

/// Whom a finding concerns.
struct Concerned {
  std::vector<int> ranks;
  std::vector<std::string> hosts;
};

class FindingList {
 public:
  /// The same seen on several ranks or hosts becomes one finding. `id` is one of finding_kinds();
  /// any other throws std::logic_error.
  void add(std::string_view id, const std::string& seen, const Concerned& concerned = {});
  /// `subject` is in order.
  void fine(std::string_view subject, const std::string& seen, const Concerned& concerned = {});

  /// The worst first.
  std::vector<Finding> sorted() const;
  Severity worst() const;

 private:
  void put(const FindingKind& kind, const std::string& seen, const Concerned& concerned);
  std::vector<Finding> findings_;
};

/// "0-2, 5"
std::string list_ranks(std::span<const int> ranks);

}  // namespace hymn
