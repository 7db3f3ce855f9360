// The kernels of the toy GPUs: the bodies that real ones run, on the host.
#include <cstring>

#include "collectives/cuda/cast_kernels.hpp"
#include "collectives/cuda/find_nan_kernel.hpp"
#include "tests/unit/host_peer_kernels.hpp"
#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using cuda::KernelThread;

/// Takes the arguments of a launch, as the driver does, and gives what is to be run then.
using Launcher = std::function<ToyTask(unsigned blocks, void** arguments)>;

template <class T>
T argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof(T));
  return value;
}

template <class Bits, Bits infinity>
ToyTask find_nan(unsigned blocks, void** arguments) {
  return {.work = [blocks, elements = argument<const Bits*>(arguments, 0),
                   count = argument<std::uint64_t>(arguments, 1),
                   found = argument<std::uint64_t*>(arguments, 2)] {
    for (unsigned block = 0; block < blocks; ++block)
      cuda::find_nan<Bits, infinity>({.block = block, .blocks = blocks}, elements, count, found);
  }};
}

/// A kernel between types: from where, to where, how many, and one number more.
template <class From, class To>
Launcher cast(void (*kernel)(const KernelThread&, From*, To*, std::uint64_t, std::uint32_t)) {
  return [kernel](unsigned blocks, void** arguments) {
    return ToyTask{.work = [=, from = argument<From*>(arguments, 0),
                            to = argument<To*>(arguments, 1),
                            count = argument<std::uint64_t>(arguments, 2),
                            number = argument<std::uint32_t>(arguments, 3)] {
      for (unsigned block = 0; block < blocks; ++block)
        kernel({.block = block, .blocks = blocks}, from, to, count, number);
    }};
  };
}

/// One that waits for those of other GPUs.
Launcher with_peers(HostPeerKernel kernel) {
  return [kernel](unsigned blocks, void** arguments) {
    return ToyTask{.aside = [kernel, blocks, team = argument<cuda::PeerTeam>(arguments, 0),
                             call = argument<cuda::PeerCall>(
                                 arguments, 1)] { run_on_host(kernel, blocks, team, call); },
                   .blocks = blocks};
  };
}

#define HYMN_TOY_CAST(name, body) {#name, cast(body)},
std::map<std::string, Launcher>& launchers() {
  using namespace cuda;  // NOLINT: the names in the lists
  static std::map<std::string, Launcher> all = {
      HYMN_WIDEN_KERNELS(HYMN_TOY_CAST)   //
      HYMN_NARROW_KERNELS(HYMN_TOY_CAST)  //
      {"hymn_find_nan_float16", find_nan<std::uint16_t, 0x7c00>},
      {"hymn_find_nan_bfloat16", find_nan<std::uint16_t, 0x7f80>},
      {"hymn_find_nan_float32", find_nan<std::uint32_t, 0x7f800000>},
      {"hymn_find_nan_float64", find_nan<std::uint64_t, 0x7ff0000000000000>},
  };
  return all;
}

constexpr cuda_api::Result not_found = 500;
constexpr cuda_api::Result launch_timeout = 702;

/// What is loaded may wait for all kernels on the GPU; of those that wait for other GPUs none may
/// be there, then.
cuda_api::Result require_no_waiting_kernels(const char* what) {
  if (!toy->has_waiting_kernels(toy_current_gpu())) return cuda_api::success;
  toy->violation(std::string(what) + " is loaded beside kernels that wait for others");
  return launch_timeout;
}

/// A driver that is lazy loads a kernel when it is wanted first. Under the toys' mutex.
cuda_api::Result load_lazily(const void* kernel) {
  if (!toy->loaded_kernels.emplace(toy_current_gpu(), kernel).second) return cuda_api::success;
  return require_no_waiting_kernels("a kernel");
}

cuda_api::Result load_module(cuda_api::Module* module, const void* image) {
  *module = reinterpret_cast<cuda_api::Module>(const_cast<void*>(image));
  std::lock_guard lock(toy->mutex);
  ++toy->counts["load_module"];
  if (const auto result = require_no_waiting_kernels("a module"); result != cuda_api::success)
    return result;
  if (const auto failure = toy->failures.extract("load_module")) return failure.mapped();
  return cuda_api::success;
}
cuda_api::Result unload_module(cuda_api::Module) {
  std::lock_guard lock(toy->mutex);
  ++toy->counts["unload_module"];
  return cuda_api::success;
}

cuda_api::Result kernel_of_module(cuda_api::Kernel* kernel, cuda_api::Module, const char* name) {
  std::lock_guard lock(toy->mutex);
  if (const HostPeerKernel found = find_host_peer_kernel(name))
    launchers().emplace(name, with_peers(found));
  const auto found = launchers().find(name);
  if (found == launchers().end()) return not_found;
  *kernel = reinterpret_cast<cuda_api::Kernel>(&found->second);
  return cuda_api::success;
}

cuda_api::Result load_kernel(cuda_api::Kernel kernel) {
  std::lock_guard lock(toy->mutex);
  return load_lazily(kernel);
}

cuda_api::Result launch(cuda_api::Kernel kernel, unsigned blocks, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, cuda_api::Stream stream, void** arguments,
                        void**) {
  std::lock_guard lock(toy->mutex);
  if (const auto failure = toy->failures.extract("launch")) return failure.mapped();
  if (const auto result = load_lazily(kernel); result != cuda_api::success) return result;
  for (const ToyStream& known : toy->streams)
    if (static_cast<const void*>(&known) == static_cast<const void*>(stream) &&
        known.gpu != toy_current_gpu())
      toy->violation("a kernel is launched on a stream of another GPU");
  toy_enqueue(stream, (*reinterpret_cast<Launcher*>(kernel))(blocks, arguments));
  return cuda_api::success;
}

}  // namespace

void add_toy_kernels(cuda_api::Functions& functions) {
  functions.load_module.pointer = load_module;
  functions.unload_module.pointer = unload_module;
  functions.kernel_of_module.pointer = kernel_of_module;
  functions.load_kernel.pointer = load_kernel;
  functions.launch.pointer = launch;
}

}  // namespace hymn::test
