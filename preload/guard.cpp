#include "preload/guard.hpp"

#include <link.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace hymn::preload {
namespace {

/// The code of the library whose name this is.
int look_at_library(dl_phdr_info* library, std::size_t, void* found) {
  if (std::string_view(library->dlpi_name).find("/libhymn.so") == std::string_view::npos) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = library->dlpi_addr + part.p_vaddr;
    *static_cast<CodeRange*>(found) = {begin, begin + part.p_memsz};
    return 1;
  }
  return 0;
}

}  // namespace

constinit thread_local int Inside::depth_ = 0;
constinit thread_local Inside::Act Inside::at_end_ = nullptr;

void Inside::end() { std::exchange(at_end_, nullptr)(); }

constinit CodeRange code_of_hymn{};

void find_hymn() noexcept { ::dl_iterate_phdr(look_at_library, &code_of_hymn); }

}  // namespace hymn::preload
