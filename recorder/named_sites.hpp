// Call sites that are no addresses: places in the program of an interpreter, which it names itself,
// and names of other kinds.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/recorder_layout.hpp"

namespace hymn {

struct SitePlace {
  std::string file;  ///< or a name
  int line = 0;      ///< 0: it is a name
};

/// Whether it is one of these; an address is not.
constexpr bool is_named_site(std::uint64_t site) { return site >> 63 != 0; }

/// Those of one process. They are kept once for it, and again in the memory of each of its
/// recorders, where others can read them: a number means the same in all.
class NamedSites {
 public:
  NamedSites() = default;
  NamedSites(const NamedSites&) = delete;
  NamedSites& operator=(const NamedSites&) = delete;
  /// Never destroyed: a dump may be written when the process ends.
  static NamedSites& of_process();

  /// The same for the same place; line 0: for the same name. 0: there is no room for more. Of a
  /// long path the end is kept.
  std::uint64_t add(std::string_view file, int line);
  const NamedSiteTable& table() const { return table_; }
  /// From now on, and of all that are there, too.
  void copy_to(NamedSiteTable& table);
  void stop_copying_to(NamedSiteTable& table);

 private:
  std::mutex mutex_;  // of whoever adds a place; nobody who reads takes it
  std::size_t used_ = 0;
  NamedSiteTable table_;
  std::vector<NamedSiteTable*> copies_;
};

/// A recorder's copy, while that lives.
class NamedSitesCopy {
 public:
  explicit NamedSitesCopy(NamedSiteTable& table) : table_(table) {
    NamedSites::of_process().copy_to(table_);
  }
  NamedSitesCopy(const NamedSitesCopy&) = delete;
  NamedSitesCopy& operator=(const NamedSitesCopy&) = delete;
  ~NamedSitesCopy() { NamedSites::of_process().stop_copying_to(table_); }

 private:
  NamedSiteTable& table_;
};

/// Whether somebody has given this number.
bool has_named_site(const NamedSiteTable& table, std::uint64_t site);
/// Empty for an address, and for a number that nobody has given.
std::optional<SitePlace> named_site(const NamedSiteTable& table, std::uint64_t site);

}  // namespace hymn
