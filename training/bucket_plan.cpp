#include "training/bucket_plan.hpp"

#include <map>
#include <utility>

namespace hymn::training::detail {

std::vector<std::size_t> backward_order(const Model& model) {
  std::vector<std::size_t> order;
  for (std::size_t i = model.size(); i-- > 0;)
    if (!model.is_sparse(i)) order.push_back(i);
  return order;
}

std::vector<std::vector<std::size_t>> plan_buckets(const Model& model,
                                                   std::span<const std::size_t> order,
                                                   std::size_t first_bytes, std::size_t bytes) {
  struct Open {
    std::size_t bucket = 0;
    std::size_t bytes = 0;
    std::size_t limit = 0;
    bool is_open = false;
  };
  std::map<std::pair<DataType, int>, Open> open;  // by type and GPU
  std::vector<std::vector<std::size_t>> buckets;
  for (const std::size_t index : order) {
    const BufferView& data = model[index].data;
    Open& one = open.try_emplace({data.dtype, model.gpu_of(index)}, Open{.limit = first_bytes})
                    .first->second;
    if (!one.is_open) {
      one.bucket = buckets.size();
      one.bytes = 0;
      one.is_open = true;
      buckets.emplace_back();
    }
    buckets[one.bucket].push_back(index);
    one.bytes += data.bytes();
    if (one.bytes < one.limit) continue;
    one.is_open = false;
    one.limit = bytes;
  }
  return buckets;
}

}  // namespace hymn::training::detail
