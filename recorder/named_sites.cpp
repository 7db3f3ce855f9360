#include "recorder/named_sites.hpp"

#include <pthread.h>

#include <algorithm>

#include "hymn/call_site.hpp"

namespace hymn {
namespace {

// No program has its code there.
constexpr std::uint64_t first_site = std::uint64_t{1} << 63;

std::string_view end_of(std::string_view path) {
  constexpr std::size_t most = NamedSite::file_text - 1;
  return path.size() <= most ? path : path.substr(path.size() - most);
}

constexpr int line_of_name = -1;

// The line comes last: a place without one is not there yet.
void store(NamedSite& site, std::string_view file, int line) {
  site.file.store(file);
  site.line.store(line, std::memory_order_release);
}

}  // namespace

NamedSites& NamedSites::of_process() {
  static auto* const sites = [] {
    // A child made by fork() must not get it locked by a thread that it has not.
    constexpr auto unlock = [] { of_process().mutex_.unlock(); };
    ::pthread_atfork([] { of_process().mutex_.lock(); }, unlock, unlock);
    return new NamedSites;
  }();
  return *sites;
}

std::uint64_t NamedSites::add(std::string_view file, int given_line) {
  const int line = given_line == 0 ? line_of_name : given_line;
  const std::string kept(end_of(file));
  const std::lock_guard lock(mutex_);
  const auto end = table_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto found = std::find_if(table_.begin(), end, [&](const NamedSite& site) {
    return site.line.load(std::memory_order_relaxed) == line && site.file.load() == kept;
  });
  const auto index = static_cast<std::size_t>(found - table_.begin());
  if (found != end) return first_site + index;
  if (used_ == table_.size()) return 0;
  ++used_;
  store(table_[index], kept, line);
  for (NamedSiteTable* const copy : copies_) store((*copy)[index], kept, line);
  return first_site + index;
}

void NamedSites::copy_to(NamedSiteTable& table) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < used_; ++i)
    store(table[i], table_[i].file.load(), table_[i].line.load(std::memory_order_relaxed));
  copies_.push_back(&table);
}

void NamedSites::stop_copying_to(NamedSiteTable& table) {
  const std::lock_guard lock(mutex_);
  std::erase(copies_, &table);
}

bool has_named_site(const NamedSiteTable& table, std::uint64_t site) {
  return is_named_site(site) && site - first_site < table.size() &&
         table[site - first_site].line.load(std::memory_order_acquire) != 0;
}

std::optional<SitePlace> named_site(const NamedSiteTable& table, std::uint64_t site) {
  if (!has_named_site(table, site)) return std::nullopt;
  const NamedSite& found = table[site - first_site];
  const int line = found.line.load(std::memory_order_relaxed);
  return SitePlace{found.file.load(), line == line_of_name ? 0 : line};
}

CallSite call_site(std::string_view name) {
  return name.empty() ? CallSite::of_the_call
                      : static_cast<CallSite>(NamedSites::of_process().add(name, 0));
}

}  // namespace hymn
