// The C API: what a thread says of the calls that it is going to make.
#include <fmt/format.h>

#include "recorder/named_sites.hpp"
#include "runtime/c_api/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

constinit thread_local hymn::c_api::Caller hymn::c_api::caller{};

hymnResult_t hymnSiteCreate(const char* file, int line, hymnSite_t* site) {
  return guarded(__func__, [&] {
    *need(site, "site") = 0;
    const std::string_view path = need(file, "file");
    if (path.empty() || line < 1)
      throw hymn::UsageError(fmt::format("'{}', line {}, is no place in a program", path, line));
    *site = hymn::NamedSites::of_process().add(path, line);
  });
}

hymnResult_t hymnThreadSetSite(hymnSite_t site) {
  return guarded(__func__, [&] {
    if (site != 0 && !hymn::has_named_site(hymn::NamedSites::of_process().table(), site))
      throw hymn::UsageError(fmt::format("{:#x} is not a hymnSite_t", site));
    caller.named_site = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(site));
    caller.site = caller.named_site;
  });
}

void hymnThreadSetCaller(const void* address) {
  caller.site = caller.named_site != nullptr ? caller.named_site : address;
}

hymnResult_t hymnThreadSetTimeout(double seconds) {
  return guarded(__func__, [&] {
    (void)option_timeout(seconds);  // refuses what is no number
    caller.timeout_seconds = seconds;
  });
}
