// The backend "hymn": process groups that are made of others.
#include "backend.hpp"

#if HYMN_TORCH_DERIVES_GROUPS

#include <algorithm>

#include "errors.hpp"

namespace hymn_torch {
namespace {

// As torch.distributed.distributed_c10d.SHRINK_ABORT.
constexpr int shrink_aborts = 1;

double seconds_of(const c10d::Backend::Options& options) {
  return std::chrono::duration<double>(options.timeout).count();
}

/// Without options a group has the limit of the one that it is made of, and a name by that one's.
void take(GroupRequest& request, const Backend::OptionsPtr& options, double limit,
          const std::string& name) {
  request.timeout_seconds = options ? seconds_of(*options) : limit;
  request.name = options ? options->group_name : name;
}

}  // namespace

Backend::OptionsPtr Backend::getBackendOptions() {
  const std::chrono::duration<double> limit(group_->limit());
  auto options = c10::make_intrusive<Options>(
      getBackendName(), std::chrono::duration_cast<std::chrono::milliseconds>(limit));
  options->group_name = name_;
  return options;
}

Backend::BackendPtr Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                   const std::vector<int>& ranks, const OptionsPtr& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return nullptr;
  GroupRequest request = group_->part(ranks);
  request.store = store;
  request.rank = static_cast<int>(own - ranks.begin());
  take(request, options, group_->limit(), name_ + ":split");
  return c10::make_intrusive<Backend>(request);
}

// Those that stay have an ascending order, so that it is a group of the same world: no store is
// needed, which torch gives none.
Backend::BackendPtr Backend::shrink(const std::vector<int64_t>& excluded, int flags,
                                    const OptionsPtr& options) {
  if (flags == shrink_aborts) give_up("the process group is shrunk");
  std::vector<int> ranks;
  for (int rank = 0; rank < getSize(); ++rank)
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) ranks.push_back(rank);
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) throw_value_error("hymn: a rank that is excluded shrinks the group");
  GroupRequest request = group_->part(ranks);
  request.rank = static_cast<int>(own - ranks.begin());
  if (options) request.timeout_seconds = seconds_of(*options);
  request.name = name_ + ":shrunk";
  return c10::make_intrusive<Backend>(request);
}

Backend::BackendPtr Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                   const OptionsPtr& options, const int& rank, const int& size) {
  GroupRequest request;  // of no world that there is
  request.store = store;
  request.rank = rank;
  request.size = size;
  take(request, options, group_->limit(), name_ + ":merged");
  return c10::make_intrusive<Backend>(request);
}

}  // namespace hymn_torch

#endif
