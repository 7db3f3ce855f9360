// GPUs that are the memory of the host, for test_gpus: c10's interface for devices, which notes in
// which order streams wait, and hymn's functions, which are told no stream and no GPU. hymn has
// chosen the first of two.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <hymn/hymn.h>
#include <torch/extension.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::mutex mutex;
std::vector<std::string> notes;
std::atomic<bool> is_reached{true};   // all that streams hold has been done
std::atomic<bool> has_gpus{true};     // hymn's functions know of some
std::atomic<void*> library{nullptr};  // hymn

template <class... Parts>
void note(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  const std::lock_guard<std::mutex> lock(mutex);
  notes.push_back(text.str());
}

const c10::Device gpu{c10::DeviceType::CUDA, 0};

/// An event is the number of the stream that it was recorded on.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static thread_local c10::StreamId current;
  static c10::Stream stream(c10::StreamId id, c10::Device device = gpu) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }

  c10::DeviceType type() const override { return gpu.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return gpu; }
  c10::Device getDevice() const override { return gpu; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return stream(current, device);
  }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(9); }
  c10::Stream exchangeStream(c10::Stream other) const noexcept override {
    return stream(std::exchange(current, other.id()), other.device());
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(on.id() + 1);
  }
  static c10::StreamId of(void* event) { return reinterpret_cast<c10::StreamId>(event) - 1; }
  void block(void* event, const c10::Stream& waits) const override {
    note("stream ", waits.id(), " after ", of(event));
  }
  bool queryEvent(void*) const override { return is_reached; }
  void synchronizeEvent(void* event) const override { note("host after ", of(event)); }
};
thread_local c10::StreamId Guard::current = 0;

const Guard guard;
const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, &guard);

at::Tensor on_gpu(const at::Tensor& host, c10::DeviceIndex index) {
  const c10::Device there{gpu.type(), index};
  return at::from_blob(
      host.data_ptr(), host.sizes(), host.strides(), [host](void*) {}, host.options().device(there),
      there);
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::vector<std::string> take_notes() {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(notes, {});
}

}  // namespace

// hymn-torch finds this one first.
HYMN_API hymnResult_t hymnIAllReduce(const void* from, void* to, size_t count, hymnDataType_t type,
                                     hymnOp_t op, hymnGroup_t group, hymnStream_t stream,
                                     hymnWork_t* work) {
  const auto reduce = real(&hymnIAllReduce, "hymnIAllReduce");
  if (!has_gpus || stream == nullptr) return reduce(from, to, count, type, op, group, stream, work);
  note("all_reduce on ", stream);
  return reduce(from, to, count, type, op, group, nullptr, work);
}

HYMN_API hymnResult_t hymnWorldGpu(hymnWorld_t, int* chosen) { return *chosen = 0, hymnSuccess; }

HYMN_API hymnResult_t hymnGroupCreate(hymnWorld_t world, const int* ranks, size_t count,
                                      const hymnGroupOptions_t* options, hymnGroup_t* group) {
  hymnGroupOptions_t on_host = *options;
  if (on_host.gpu != nullptr) note("group on ", *std::exchange(on_host.gpu, nullptr));
  return real(&hymnGroupCreate, "hymnGroupCreate")(world, ranks, count, &on_host, group);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("use", [](const std::string& path) { library = dlopen(path.c_str(), RTLD_NOW); });
  module.def("on_gpu", on_gpu, pybind11::arg("host"), pybind11::arg("index") = 0);
  module.def("take_notes", take_notes);
  module.def("set_reached", [](bool reached) { is_reached = reached; });
  module.def("set_has_gpus", [](bool has) { has_gpus = has; });
}
