// Loads CUDA's driver and moves bytes with it.
#include "tools/doctor/gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "hymn/error.hpp"
#include "tools/doctor/cuda.hpp"

namespace hymn {
namespace {

using cuda_api::Context;
using cuda_api::Pointer;

/// The first of these libraries that is there; null when none is. It stays loaded: libraries of
/// GPUs do not expect to be unloaded.
void* load(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// False when the library does not have it.
template <class Signature>
bool find(void* library, Function<Signature>& function) {
  function.pointer = reinterpret_cast<Signature*>(dlsym(library, function.name));
  return function.pointer != nullptr;
}

class Driver : public cuda_api::CopyFunctions {
 public:
  /// False where there is no driver, or one that is too old.
  bool load_all() {
    void* cuda = load({"libcuda.so.1"});
    const auto find_all = [cuda](auto&... functions) { return (find(cuda, functions) && ...); };
    return cuda != nullptr &&
           find_all(init, error_name, count, can_access_peer, retain_context, release_context,
                    set_context, enable_peer_access, synchronize, allocate, release, fill, to_gpu,
                    to_host, between) &&
           init.pointer(0) == cuda_api::success;
  }

  /// Throws BackendError when the call fails.
  template <class... Parameters, class... Arguments>
  void call(const Function<int(Parameters...)>& function, Arguments... arguments) const {
    const int code = function.pointer(arguments...);
    if (code == cuda_api::success) return;
    const char* name = nullptr;
    if (error_name.pointer(code, &name) != cuda_api::success || name == nullptr)
      name = "an unknown error";
    throw BackendError(fmt::format("{} failed with {}", function.name, name), "CUDA", code);
  }
};

/// Memory of the GPU whose context is current.
class DeviceMemory {
 public:
  DeviceMemory(const Driver& driver, std::size_t bytes) : driver_(driver) {
    driver_.call(driver_.allocate, &data_, bytes);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { driver_.release.pointer(data_); }
  Pointer data() const { return data_; }

 private:
  const Driver& driver_;
  Pointer data_ = 0;
};

class CudaCopier final : public GpuCopier {
 public:
  explicit CudaCopier(const Driver& driver) : driver_(driver) {}
  ~CudaCopier() override {
    driver_.set_context.pointer(nullptr);
    for (const auto& [gpu, context] : contexts_) driver_.release_context.pointer(gpu);
  }

  int count() override {
    int gpus = 0;
    driver_.call(driver_.count, &gpus);
    return gpus;
  }

  bool has_peer_access(int from, int to) override {
    if (from == to) return true;
    int can = 0;
    driver_.call(driver_.can_access_peer, &can, from, to);
    return can != 0;
  }

  std::vector<unsigned char> round_trip(int from, int to,
                                        const std::vector<unsigned char>& bytes) override {
    const std::size_t size = bytes.size();
    const Context to_context = enter(to);
    const DeviceMemory target(driver_, size);
    driver_.call(driver_.fill, target.data(), static_cast<unsigned char>(0), size);
    driver_.call(driver_.synchronize);
    const Context from_context = enter(from);
    const DeviceMemory source(driver_, size);
    if (from != to && has_peer_access(from, to)) enable_peer_access(to_context);
    driver_.call(driver_.to_gpu, source.data(), static_cast<const void*>(bytes.data()), size);
    driver_.call(driver_.between, target.data(), to_context, source.data(), from_context, size);
    driver_.call(driver_.synchronize);
    std::vector<unsigned char> back(size);
    enter(to);
    driver_.call(driver_.to_host, static_cast<void*>(back.data()), target.data(), size);
    return back;
  }

 private:
  Context enter(int gpu) {
    auto known = contexts_.find(gpu);
    if (known == contexts_.end()) {
      Context context = nullptr;
      driver_.call(driver_.retain_context, &context, gpu);
      known = contexts_.emplace(gpu, context).first;
    }
    driver_.call(driver_.set_context, known->second);
    return current_ = known->second;
  }

  // Without it the driver copies through host memory.
  void enable_peer_access(Context peer) {
    if (enabled_.insert({current_, peer}).second)
      driver_.call(driver_.enable_peer_access, peer, 0U);
  }

  Driver driver_;
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

int version_from(std::initializer_list<const char*> libraries, const char* name) {
  Function<int(int*)> get_version{name};
  void* library = load(libraries);
  int version = 0;
  if (library == nullptr || !find(library, get_version) || get_version.pointer(&version) != 0)
    return 0;
  return version;
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
      } catch (const BackendError& error) {
        copy.problem = error.problem();
      }
      copies.push_back(copy);
    }
  }
  return copies;
}

std::vector<GpuCopy> try_copies() {
  Driver driver;
  if (!driver.load_all()) return {};
  CudaCopier copier(driver);
  return try_copies(copier);
}

int nccl_version() { return version_from({"libnccl.so.2"}, "ncclGetVersion"); }

int cuda_runtime_version() {
  return version_from({"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
                      "cudaRuntimeGetVersion");
}

}  // namespace hymn
