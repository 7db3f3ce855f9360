#include <memory>
#include <vector>

#include "hymn/gradient_hooks.hpp"
#include "hymn/half.hpp"
#include "training/bucket.hpp"

namespace hymn::training {
namespace {

template <class Half, class Wide>
void narrow(const Wide* from, std::vector<Half>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = Half(static_cast<float>(from[i]));
}
template <class Half, class Wide>
void widen(const Half* from, Wide* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

template <class Half, class Wide>
Future<BufferView> reduce_narrowed(const CommHook& hook, const GradBucket& bucket) {
  const BufferView whole = bucket.buffer();
  const auto halves = std::make_shared<std::vector<Half>>(whole.count);
  narrow(static_cast<const Wide*>(whole.data), *halves);
  return hook(bucket.with_buffer(BufferView(*halves), halves))
      .then([bucket, whole, halves](const BufferView& reduced) {
        detail::require_fitting(reduced, BufferView(*halves), bucket.index());
        widen(static_cast<const Half*>(reduced.data), static_cast<Wide*>(whole.data), whole.count);
        return whole;
      });
}

template <class Half>
CommHook compress(CommHook hook) {
  return [hook = std::move(hook)](const GradBucket& bucket) {
    const DataType dtype = bucket.buffer().dtype;
    if (dtype == DataType::float32) return reduce_narrowed<Half, float>(hook, bucket);
    if (dtype == DataType::float64) return reduce_narrowed<Half, double>(hook, bucket);
    return hook(bucket);
  };
}

}  // namespace

CommHook all_reduce_hook() {
  return [](const GradBucket& bucket) {
    return bucket.average(bucket.buffer()).then([bucket](const std::vector<BufferView>&) {
      return bucket.buffer();
    });
  };
}

CommHook fp16_compress(CommHook hook) { return compress<float16>(std::move(hook)); }
CommHook bf16_compress(CommHook hook) { return compress<bfloat16>(std::move(hook)); }

}  // namespace hymn::training
