#include "gpu/nccl_library.hpp"

#include <fmt/format.h>

#include <utility>

namespace hymn {
namespace {

NcclLibrary load_nccl() {
  nccl_api::Functions f;
  std::string problem = load_table<nccl_api::Functions>(
      "libnccl.so.2", f.get_version, f.error_text, f.last_error, f.get_unique_id, f.init_rank,
      f.split, f.get_async_error, f.finalize, f.destroy, f.abort, f.group_start, f.group_end,
      f.all_reduce, f.broadcast, f.reduce, f.all_gather, f.reduce_scatter, f.send, f.recv,
      f.make_premul_sum, f.destroy_op, f.allocate, f.release, f.register_buffer,
      f.deregister_buffer, f.open_window, f.close_window);
  return judge_nccl(f, std::move(problem));
}

}  // namespace

NcclLibrary judge_nccl(const nccl_api::Functions& functions, std::string load_problem) {
  NcclLibrary library{functions, 0, std::move(load_problem)};
  if (!library.problem.empty()) return library;
  if (functions.get_version.pointer == nullptr ||
      functions.get_version.pointer(&library.version) != nccl_api::success) {
    library.problem = "it does not report its version";
  } else if (library.version < nccl_api::oldest_version) {
    library.problem = fmt::format("version {} is too old: {} or newer is needed",
                                  nccl_version_text(library.version),
                                  nccl_version_text(nccl_api::oldest_version));
  }
  return library;
}

const NcclLibrary& loaded_nccl() {
  static const NcclLibrary library = load_nccl();
  return library;
}

std::string nccl_version_text(int version) {
  // Up to 2.8 the parts were a thousand and a hundred apart.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int rest = version < 10000 ? version % 1000 : version % 10000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

}  // namespace hymn
