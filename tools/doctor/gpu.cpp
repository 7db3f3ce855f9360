// Loads CUDA's driver and moves bytes with it.
#include "tools/doctor/gpu.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "gpu/cuda_calls.hpp"
#include "gpu/nccl_library.hpp"
#include "gpu/presence.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using cuda_api::Context;
using cuda_api::Pointer;

/// Memory of the GPU whose context is current.
class DeviceMemory {
 public:
  DeviceMemory(const cuda_api::Functions& cuda, std::size_t bytes) : cuda_(cuda) {
    call(cuda_, cuda_.allocate, &data_, bytes);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (cuda_.release.pointer != nullptr) cuda_.release.pointer(data_);
  }
  Pointer data() const { return data_; }

 private:
  const cuda_api::Functions& cuda_;
  Pointer data_ = 0;
};

class CudaCopier final : public GpuCopier {
 public:
  explicit CudaCopier(const cuda_api::Functions& cuda) : cuda_(cuda) {}
  ~CudaCopier() override {
    if (contexts_.empty() || cuda_.release_context.pointer == nullptr) return;
    cuda_.set_context.pointer(nullptr);
    for (const auto& [gpu, context] : contexts_) cuda_.release_context.pointer(gpu);
  }

  int count() override {
    int gpus = 0;
    call(cuda_, cuda_.count, &gpus);
    return gpus;
  }

  bool has_peer_access(int from, int to) override {
    if (from == to) return true;
    int can = 0;
    call(cuda_, cuda_.can_access_peer, &can, from, to);
    return can != 0;
  }

  std::vector<unsigned char> round_trip(int from, int to,
                                        const std::vector<unsigned char>& bytes) override {
    const std::size_t size = bytes.size();
    const Context to_context = enter(to);
    const DeviceMemory target(cuda_, size);
    call(cuda_, cuda_.fill, target.data(), static_cast<unsigned char>(0), size);
    call(cuda_, cuda_.synchronize);
    const Context from_context = enter(from);
    const DeviceMemory source(cuda_, size);
    if (from != to && has_peer_access(from, to)) enable_peer_access(to_context);
    call(cuda_, cuda_.to_gpu, source.data(), static_cast<const void*>(bytes.data()), size);
    call(cuda_, cuda_.between, target.data(), to_context, source.data(), from_context, size);
    call(cuda_, cuda_.synchronize);
    std::vector<unsigned char> back(size);
    enter(to);
    call(cuda_, cuda_.to_host, static_cast<void*>(back.data()), target.data(), size);
    return back;
  }

 private:
  Context enter(int gpu) {
    auto known = contexts_.find(gpu);
    if (known == contexts_.end()) {
      Context context = nullptr;
      call(cuda_, cuda_.retain_context, &context, gpu);
      known = contexts_.emplace(gpu, context).first;
    }
    call(cuda_, cuda_.set_context, known->second);
    return current_ = known->second;
  }

  // Without it the driver copies through host memory.
  void enable_peer_access(Context peer) {
    if (enabled_.insert({current_, peer}).second) call(cuda_, cuda_.enable_peer_access, peer, 0U);
  }

  const cuda_api::Functions& cuda_;
  std::map<int, Context> contexts_;  // primary ones, which the whole process shares
  Context current_ = nullptr;
  std::set<std::pair<Context, Context>> enabled_;
};

std::vector<unsigned char> pattern(int from, int to) {
  std::vector<unsigned char> bytes(std::size_t{1} << 20);
  // Different for every pair, and without zeros, which untouched memory is full of.
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(
        1 +
        (i * 7 + static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 17) % 255);
  return bytes;
}

}  // namespace

std::vector<GpuCopy> try_copies(GpuCopier& copier) {
  std::vector<GpuCopy> copies;
  const int count = copier.count();
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      GpuCopy copy{.from = from, .to = to, .direct = true, .problem = "", .right = true};
      try {
        copy.direct = copier.has_peer_access(from, to);
        const auto sent = pattern(from, to);
        copy.right = copier.round_trip(from, to, sent) == sent;
      } catch (const Error& error) {
        copy.problem = error.problem();
      }
      copies.push_back(copy);
    }
  }
  return copies;
}

std::vector<GpuCopy> try_copies() {
  const GpuFunctions& functions = loaded_gpu_functions();
  if (!why_no_gpus(functions).empty()) return {};
  CudaCopier copier(functions.cuda);
  return try_copies(copier);
}

int nccl_version() { return loaded_nccl().version; }

int cuda_runtime_version() {
  Function<int(int*)> get_version{"cudaRuntimeGetVersion"};
  int version = 0;
  for (const char* library :
       {"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (load_table<Function<int(int*)>>(library, get_version).empty()) break;
  }
  if (get_version.pointer == nullptr || get_version.pointer(&version) != 0) return 0;
  return version;
}

}  // namespace hymn
