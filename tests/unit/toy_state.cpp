// What the toy GPUs' streams do, and how a collective is carried out.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tests/unit/toy_state.hpp"

namespace hymn::test {

ToyState* toy = nullptr;

// --- Arithmetic, as exact as it has to be for small whole numbers

namespace {

template <class T>
double widened(T value) {
  return static_cast<double>(value);
}
double widened(bfloat16 value) { return static_cast<float>(value); }
double widened(float16 value) { return static_cast<float>(value); }

template <class T>
T narrowed(double value) {
  return static_cast<T>(value);
}
template <>
bfloat16 narrowed<bfloat16>(double value) {
  return bfloat16(static_cast<float>(value));
}

template <>
float16 narrowed<float16>(double value) {
  return float16(static_cast<float>(value));
}

template <class Visit>
void with_type(int type, Visit visit) {
  switch (type) {
    case nccl_api::int8:
      return visit(std::int8_t());
    case nccl_api::uint8:
      return visit(std::uint8_t());
    case nccl_api::int32:
      return visit(std::int32_t());
    case nccl_api::int64:
      return visit(std::int64_t());
    case nccl_api::float32:
      return visit(float());
    case nccl_api::float64:
      return visit(double());
    case nccl_api::bfloat16:
      return visit(bfloat16());
    case nccl_api::float16:
      return visit(float16());
    default:
      toy->violation("a type that the toy has not: " + std::to_string(type));
  }
}

std::size_t bytes_of(int type) {
  std::size_t bytes = 1;
  with_type(type, [&bytes](auto value) { bytes = sizeof(value); });
  return bytes;
}

std::vector<std::byte> reduced(const std::vector<ToyCall*>& parts, std::size_t count) {
  const ToyCall& first = *parts.front();
  std::vector<std::byte> result(count * bytes_of(first.type));
  with_type(first.type, [&](auto example) {
    using T = decltype(example);
    auto* const out = reinterpret_cast<T*>(result.data());
    for (std::size_t i = 0; i < count; ++i) {
      double value = first.op == nccl_api::product ? 1 : 0;
      for (const ToyCall* const part : parts) {
        const double in = widened(static_cast<const T*>(part->in)[i]);
        if (part->op >= 100)
          value += in * part->comm->factors.at(part->op);
        else if (part->op == nccl_api::product)
          value *= in;
        else if (part->op == nccl_api::min || part->op == nccl_api::max)
          value = part == parts.front()       ? in
                  : part->op == nccl_api::min ? std::min(value, in)
                                              : std::max(value, in);
        else
          value += in;
        // At each hop, as NCCL.
        if constexpr (!std::is_integral_v<T>) value = widened(narrowed<T>(value));
      }
      if (first.op == nccl_api::avg) value /= static_cast<double>(parts.size());
      out[i] = narrowed<T>(value);
    }
  });
  return result;
}

}  // namespace

void toy_collective(const std::vector<ToyCall*>& parts) {
  const ToyCall& first = *parts.front();
  const std::size_t bytes = first.count * bytes_of(first.type);
  for (const ToyCall* const part : parts)
    if (part->name != first.name || part->count != first.count || part->peer != first.peer)
      return toy->violation("ranks make different calls: " + first.name + " and " + part->name);
  if (bytes == 0) return;  // there may be no buffers
  if (first.name == "broadcast") {
    const void* const from = parts[static_cast<std::size_t>(first.peer)]->in;
    for (const ToyCall* const part : parts) std::memmove(part->out, from, bytes);
  } else if (first.name == "all_gather") {
    std::vector<std::byte> all;
    for (const ToyCall* const part : parts) {
      const auto* const in = static_cast<const std::byte*>(part->in);
      all.insert(all.end(), in, in + bytes);
    }
    for (const ToyCall* const part : parts) std::memcpy(part->out, all.data(), all.size());
  } else if (first.name == "reduce_scatter") {
    const auto all = reduced(parts, first.count * parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (const auto* const in = static_cast<const std::byte*>(parts[i]->in);
          in + i * bytes != parts[i]->out && in < static_cast<std::byte*>(parts[i]->out) + bytes &&
          static_cast<std::byte*>(parts[i]->out) < in + parts.size() * bytes)
        toy->violation("a reduce_scatter into its input, but not in place");
    for (std::size_t i = 0; i < parts.size(); ++i)
      std::memcpy(parts[i]->out, all.data() + i * bytes, bytes);
  } else {
    const auto all = reduced(parts, first.count);
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (first.name == "all_reduce" || static_cast<int>(i) == first.peer)
        std::memcpy(parts[i]->out, all.data(), all.size());
  }
}

// --- What streams do

bool ToyState::is_held(const std::string& name) const {
  return std::find(held.begin(), held.end(), name) != held.end();
}

void ToyState::progress() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (ToyStream& stream : streams)
      while (!stream.tasks.empty() && step(stream)) moved = true;
  }
}

/// Whether the first task has ended.
bool ToyState::step(ToyStream& stream) {
  ToyTask& task = stream.tasks.front();
  if (task.awaits && !*task.awaits) return false;
  bool all = true;
  for (ToyCall& call : task.calls) all = (call.done || carry_out(call)) && all;
  if (!all || !is_aside_done(stream.gpu, task)) return false;
  const ToyTask done = std::move(task);
  stream.tasks.pop_front();
  if (done.work) done.work();
  if (done.sets) *done.sets = true;
  return true;
}

bool ToyState::is_aside_done(int gpu, ToyTask& task) {
  if (!task.aside) return true;
  unsigned& running = blocks_running_[gpu];
  if (task.aside_is_done == nullptr) {
    if (running + task.blocks > blocks_of_toy_gpu) return false;
    running += task.blocks;
    task.aside_is_done = std::make_shared<std::atomic<bool>>(false);
    asides_.push_back(task.aside_is_done);
    threads.emplace_back([work = task.aside, done = task.aside_is_done] {
      work();
      done->store(true);
    });
  }
  if (!task.aside_is_done->load()) return false;
  running -= task.blocks;
  return true;
}

bool ToyState::has_waiting_kernels(int gpu) {
  progress();
  return std::any_of(streams.begin(), streams.end(), [gpu](const ToyStream& stream) {
    return stream.gpu == gpu &&
           std::any_of(stream.tasks.begin(), stream.tasks.end(), [](const ToyTask& task) {
             return task.aside != nullptr || !task.calls.empty();
           });
  });
}

ToyStream& ToyState::make_stream(int gpu) {
  const auto unused = std::find_if(streams.begin(), streams.end(), [gpu](const ToyStream& stream) {
    return stream.is_destroyed && stream.gpu == gpu;
  });
  ToyStream& made = unused != streams.end() ? *unused : streams.emplace_back();
  made.is_destroyed = false;
  made.gpu = gpu;
  made.id = ++streams_made;
  return made;
}

ToyStream& ToyState::default_stream(int gpu) {
  ToyStream*& stream = default_streams[gpu];
  if (stream == nullptr) stream = &make_stream(gpu);
  return *stream;
}

void ToyState::destroy_stream(ToyStream& stream) {
  ToyStream& rest = streams.emplace_back();  // has no handle
  rest.gpu = stream.gpu;
  rest.tasks.swap(stream.tasks);
  stream.is_destroyed = true;
}

bool ToyState::is_idle_aside() const {
  return std::all_of(asides_.begin(), asides_.end(),
                     [](const auto& is_done) { return is_done->load(); });
}

std::vector<ToyCall*> ToyState::at_front(const ToyTeam& team) {
  std::vector<ToyCall*> found;
  for (ToyStream& stream : streams)
    if (!stream.tasks.empty() && (!stream.tasks.front().awaits || *stream.tasks.front().awaits))
      for (ToyCall& call : stream.tasks.front().calls)
        if (call.comm->team.get() == &team && !call.done) found.push_back(&call);
  return found;
}

bool ToyState::carry_out(ToyCall& call) {
  if (is_held("collective")) return false;
  const ToyTeam& team = *call.comm->team;
  if (call.kind == ToyCall::Kind::recv) return false;  // by its send
  std::vector<ToyCall*> parts(team.size, nullptr);
  for (ToyCall* const other : at_front(team)) {
    if (call.kind == ToyCall::Kind::send && other->kind == ToyCall::Kind::recv &&
        other->comm->rank == call.peer && other->peer == call.comm->rank) {
      if (other->count != call.count) violation("a send and a receive of different sizes");
      const std::size_t bytes = std::min(other->count, call.count) * bytes_of(call.type);
      if (bytes != 0) std::memcpy(other->out, call.in, bytes);  // which wants no null pointers
      return other->done = call.done = true;
    }
    if (call.kind == ToyCall::Kind::collective && other->kind == call.kind &&
        other->sequence == call.sequence)
      parts[static_cast<std::size_t>(other->comm->rank)] = other;
  }
  if (call.kind != ToyCall::Kind::collective ||
      std::find(parts.begin(), parts.end(), nullptr) != parts.end())
    return false;
  toy_collective(parts);
  for (ToyCall* const part : parts) part->done = true;
  return true;
}

}  // namespace hymn::test
