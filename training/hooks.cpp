#include <memory>
#include <vector>

#include "hymn/gradient_hooks.hpp"
#include "hymn/half.hpp"
#include "training/bucket.hpp"
#include "training/host_hook.hpp"

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
CommHook compress(const char* name, CommHook hook) {
  return detail::HostHook{name, [hook = std::move(hook)](const GradBucket& bucket) {
                            const DataType dtype = bucket.buffer().dtype;
                            if (dtype == DataType::float32)
                              return reduce_narrowed<Half, float>(hook, bucket);
                            if (dtype == DataType::float64)
                              return reduce_narrowed<Half, double>(hook, bucket);
                            return hook(bucket);
                          }};
}

Future<BufferView> at_once(const BufferView& buffer) {
  const Promise<BufferView> promise;
  promise.set_value(buffer);
  return promise.get_future();
}

}  // namespace

void detail::HostHook::refuse(const std::string& name) {
  throw UnsupportedError(
      name + " computes in memory of the host, and gradients are on GPUs",
      {.operation = "GradientReducer", .remedy = "do without it, or give a hook of your own"});
}

void detail::require_hook_for_gpus(const CommHook& hook) {
  if (const auto* const known = hook.target<HostHook>()) HostHook::refuse(known->name);
}

CommHook all_reduce_hook() {
  return [](const GradBucket& bucket) {
    const Work work = bucket.average(bucket.buffer());
    // What is enqueued on its stream from now on finds it there: nobody need wait on the host.
    if (bucket.stream() != nullptr) return at_once(bucket.buffer());
    return work.then([bucket](const std::vector<BufferView>&) { return bucket.buffer(); });
  };
}

CommHook fp16_compress(CommHook hook) {
  return compress<float16>("fp16_compress", std::move(hook));
}
CommHook bf16_compress(CommHook hook) {
  return compress<bfloat16>("bf16_compress", std::move(hook));
}

}  // namespace hymn::training
