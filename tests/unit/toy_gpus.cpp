#include "tests/unit/toy_gpus.hpp"

#include <algorithm>
#include <deque>

#include "tests/support/machines.hpp"
#include "tests/unit/toy_state.hpp"

namespace hymn::test {

namespace {

/// As the driver's bytes read: toy_cuda.cpp.
std::string uuid_of(int gpu) {
  std::string text = "GPU";
  for (const int bytes : {4, 2, 2, 2, 6}) {
    text += '-';
    for (int i = 0; i < bytes; ++i) text += "0" + std::to_string(gpu);
  }
  return text;
}

std::shared_ptr<const Machine> make_host(std::string name, int first_gpu, int gpus) {
  Machine machine = make_box({.cores = 8, .gpus = gpus});
  machine.name = std::move(name);
  for (Gpu& gpu : machine.gpus) gpu.uuid = uuid_of(first_gpu + gpu.index);
  return std::make_shared<const Machine>(std::move(machine));
}

/// They live on: what worlds have given up is kept for ever.
GpuFunctions& more_functions() {
  static std::deque<GpuFunctions> all;
  return all.emplace_back();
}

}  // namespace

ToyGpus::ToyGpus(int gpus) : state_(std::make_unique<ToyState>()), functions_(more_functions()) {
  toy = state_.get();
  state_->gpus = gpus;
  functions_.cuda = toy_cuda(*state_);
  memory_ = std::make_unique<MemoryQuery>(functions_.cuda);
  nccl_ = judge_nccl(toy_nccl(), "");
  pretended_ = {{&functions_, [this]() -> const NcclLibrary& { return nccl_; }}, memory_.get()};
  machine_ = make_host("toys", 0, gpus);
}

ToyGpus::~ToyGpus() {
  release();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->held_up == 0; });
  toy = nullptr;
}

void ToyGpus::set_version(int version) {
  state_->version = version;
  nccl_ = judge_nccl(toy_nccl(), "");
}

std::vector<PretendedRank> ToyGpus::ranks(int count, const Config& config) const {
  std::vector<PretendedRank> made;
  for (int i = 0; i < count; ++i) {
    PretendedRank& rank = made.emplace_back();
    rank = {.host = machine_->name, .machine = machine_, .cpus = machine_->cpus, .config = config};
    rank.config.gpu = i < state_->gpus ? std::to_string(i) : "none";
    rank.gpus = &pretended_;
  }
  return made;
}

void ToyGpus::run(const std::function<void(World&)>& body, const WorldOptions& options,
                  const Config& config) const {
  run_pretended_ranks(ranks(state_->gpus, config), body, options);
}

void ToyGpus::run_on_hosts(const std::vector<int>& gpus, const std::function<void(World&)>& body,
                           const Config& config) const {
  std::vector<PretendedRank> all;
  for (const int count : gpus) {
    const std::string name = "host-" + std::to_string(all.size());
    const auto machine = make_host(name, static_cast<int>(all.size()), count);
    for (int i = 0; i < count; ++i) {
      PretendedRank& rank = all.emplace_back();
      rank = {.host = name, .machine = machine, .cpus = machine->cpus, .config = config};
      rank.config.gpu = std::to_string(i);
      rank.gpus = &pretended_;
    }
  }
  run_pretended_ranks(all, body);
}

void ToyGpus::run_on_gpus(const std::vector<std::string>& own,
                          const std::function<void(World&)>& body) const {
  std::vector<PretendedRank> all = ranks(static_cast<int>(own.size()), {});
  for (std::size_t i = 0; i < own.size(); ++i) all[i].config.gpu = own[i];
  run_pretended_ranks(all, body);
}

void ToyGpus::run_with_others(int count, const std::function<void(World&)>& body,
                              const Config& config) const {
  run_pretended_ranks(ranks(count, config), body);
}

void ToyGpus::run_mixed(const std::vector<const PretendedGpus*>& libraries,
                        const std::function<void(World&)>& body) const {
  std::vector<PretendedRank> mixed = ranks(static_cast<int>(libraries.size()), {});
  for (std::size_t i = 0; i < libraries.size(); ++i) mixed[i].gpus = libraries[i];
  run_pretended_ranks(mixed, body);
}

void* ToyGpus::allocate(int gpu, std::size_t bytes, MemoryKind kind) {
  return toy_allocate(gpu, bytes, kind);
}

void ToyGpus::free(void* pointer) { toy_free(pointer); }

void* ToyGpus::make_stream(int gpu) {
  std::lock_guard lock(state_->mutex);
  return &state_->make_stream(gpu);
}

void* ToyGpus::default_stream(int gpu) {
  std::lock_guard lock(state_->mutex);
  return &state_->default_stream(gpu);
}

void ToyGpus::destroy_stream(void* stream) {
  std::lock_guard lock(state_->mutex);
  state_->destroy_stream(*static_cast<ToyStream*>(stream));
}

void ToyGpus::capture(void* stream) {
  std::lock_guard lock(state_->mutex);
  toy_begin_capture(*static_cast<ToyStream*>(stream), cuda_api::capture_global);
}

void ToyGpus::end_capture(void* stream) {
  std::lock_guard lock(state_->mutex);
  static_cast<ToyStream*>(stream)->is_capturing = false;
  if (static_cast<ToyStream*>(stream)->is_broken) state_->violation("a graph of a broken capture");
  if (static_cast<ToyStream*>(stream)->open_in_graph != 0)
    state_->violation("a graph does not release its memory");
}

void ToyGpus::launch_graph(void* stream) {
  std::lock_guard lock(state_->mutex);
  for (ToyTask task : static_cast<ToyStream*>(stream)->graph) {
    for (ToyCall& call : task.calls)
      if (call.kind == ToyCall::Kind::collective) call.sequence = call.comm->collectives++;
    static_cast<ToyStream*>(stream)->tasks.push_back(std::move(task));
  }
  state_->progress();
}

void ToyGpus::enqueue(void* stream, std::function<void()> work) {
  std::lock_guard lock(state_->mutex);
  toy_enqueue(static_cast<cuda_api::Stream>(stream), {.work = std::move(work)});
}

std::function<void()> ToyGpus::gate(void* stream) {
  const auto is_open = std::make_shared<bool>(false);
  std::lock_guard lock(state_->mutex);
  toy_enqueue(static_cast<cuda_api::Stream>(stream), {.awaits = is_open});
  return [this, is_open] {
    std::lock_guard inner(state_->mutex);
    *is_open = true;
    state_->progress();
  };
}

bool ToyGpus::synchronize(void* stream) {
  return eventually([this, stream] {
    std::lock_guard lock(state_->mutex);
    state_->progress();
    return static_cast<ToyStream*>(stream)->tasks.empty();
  });
}

void ToyGpus::hold(const std::string& name) {
  std::lock_guard lock(state_->mutex);
  state_->held.push_back(name);
}

void ToyGpus::release() {
  std::lock_guard lock(state_->mutex);
  state_->held.clear();
  state_->progress();
  state_->changed.notify_all();
}

void ToyGpus::fail(const std::string& name, int result) {
  std::lock_guard lock(state_->mutex);
  state_->failures[name] = result;
}

void ToyGpus::take_memory_pools() {
  std::lock_guard lock(state_->mutex);
  state_->has_memory_pools = false;
}

void ToyGpus::after_next_look(std::function<void()> act) {
  std::lock_guard lock(state_->mutex);
  state_->after_look = std::move(act);
}

void ToyGpus::set_state(int state) {
  std::lock_guard lock(state_->mutex);
  state_->comm_state = state;
}

std::vector<std::string> ToyGpus::calls(int gpu) const {
  std::lock_guard lock(state_->mutex);
  return state_->calls[gpu];
}

int ToyGpus::count(const std::string& name) const {
  std::lock_guard lock(state_->mutex);
  return state_->counts[name];
}

std::vector<std::string> ToyGpus::violations() const {
  std::lock_guard lock(state_->mutex);
  return state_->violations;
}

nccl_api::Config ToyGpus::last_config() const {
  std::lock_guard lock(state_->mutex);
  return state_->config;
}

int ToyGpus::streams_of_high_priority() const {
  std::lock_guard lock(state_->mutex);
  return static_cast<int>(std::count_if(state_->streams.begin(), state_->streams.end(),
                                        [](const ToyStream& stream) { return stream.high; }));
}

int ToyGpus::open_events() const {
  std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->events.size());
}

int ToyGpus::open_allocations() const {
  std::lock_guard lock(state_->mutex);
  return state_->allocations;
}

int ToyGpus::open_of_nccl() const {
  std::lock_guard lock(state_->mutex);
  return state_->open_of_nccl;
}

int ToyGpus::open_on_streams() const {
  std::lock_guard lock(state_->mutex);
  return state_->open_on_streams;
}

int ToyGpus::queries() const {
  std::lock_guard lock(state_->mutex);
  return state_->event_queries;
}

}  // namespace hymn::test
