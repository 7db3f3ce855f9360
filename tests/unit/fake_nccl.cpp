#include "tests/unit/fake_nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace hymn::test {

using nccl_api::Comm;
using nccl_api::Config;
using nccl_api::Op;
using nccl_api::Result;
using nccl_api::Stream;
using nccl_api::UniqueId;

namespace {

FakeNccl* fake = nullptr;  // plain functions know nothing else

}  // namespace

struct FakeNccl::Calls {
  static Result get_version(int* version) { return *version = 22809, 0; }
  static const char* error_text(Result result) {
    return result == nccl_api::remote_error ? "remote process exited or there was a network error"
                                            : "unhandled system error";
  }
  static const char* last_error(Comm) { return "the test wants it so"; }
  static Result get_unique_id(UniqueId* id) {
    id->bytes.fill(static_cast<char>(fake->calls().size() + 1));
    return fake->enter("id", "id");
  }
  static Result init_rank(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
    const Result result = fake->enter("init", fmt::format("init {} of {}", rank, ranks));
    std::lock_guard lock(fake->mutex_);
    fake->ids_.push_back(id);
    fake->config_ = *config;
    fake->net_name_ = config->net_name == nullptr ? "" : config->net_name;
    if (result == nccl_api::success || result == nccl_api::in_progress) *comm = fake->make();
    return result;
  }
  static Result split(Comm parent, int color, int key, Comm* part, Config*) {
    const Result result = fake->enter(
        "split", fmt::format("split {} color {} key {}", number_of(parent), color, key));
    std::lock_guard lock(fake->mutex_);
    *part = color == nccl_api::no_color ? nullptr : fake->make();
    return result;
  }
  static Result get_async_error(Comm, Result* state) { return *state = fake->state_, 0; }
  static Result finalize(Comm comm) {
    return fake->enter("finalize", "finalize " + number_of(comm));
  }
  static Result destroy(Comm comm) { return fake->enter("destroy", "destroy " + number_of(comm)); }
  // Those that use a communicator note the element counts and NCCL's numbers, not the addresses.
  static Result group_start() { return fake->enter("start", "start"); }
  static Result group_end() { return fake->enter("end", "end"); }
  static Result all_reduce(const void* in, void* out, std::size_t count, nccl_api::DataType type,
                           Op op, Comm, Stream) {
    return fake->enter("all_reduce", fmt::format("all_reduce {} of type {} op {}{}", count, type,
                                                 op, in == out ? " in place" : ""));
  }
  static Result broadcast(const void*, void*, std::size_t count, nccl_api::DataType type, int root,
                          Comm, Stream) {
    return fake->enter("broadcast",
                       fmt::format("broadcast {} of type {} root {}", count, type, root));
  }
  static Result reduce(const void* in, void* out, std::size_t count, nccl_api::DataType type, Op op,
                       int root, Comm, Stream) {
    const char* const where = out == nullptr ? " elsewhere" : in == out ? " in place" : "";
    return fake->enter("reduce", fmt::format("reduce {} of type {} op {} root {}{}", count, type,
                                             op, root, where));
  }
  static Result all_gather(const void*, void*, std::size_t count, nccl_api::DataType type, Comm,
                           Stream) {
    return fake->enter("all_gather", fmt::format("all_gather {} of type {}", count, type));
  }
  static Result reduce_scatter(const void*, void*, std::size_t count, nccl_api::DataType type,
                               Op op, Comm, Stream) {
    return fake->enter("reduce_scatter",
                       fmt::format("reduce_scatter {} of type {} op {}", count, type, op));
  }
  static Result send(const void*, std::size_t count, nccl_api::DataType type, int to, Comm,
                     Stream) {
    return fake->enter("send", fmt::format("send {} of type {} to {}", count, type, to));
  }
  static Result recv(void*, std::size_t count, nccl_api::DataType type, int from, Comm, Stream) {
    return fake->enter("recv", fmt::format("recv {} of type {} from {}", count, type, from));
  }
  static Result make_premul_sum(Op* op, void* factor, nccl_api::DataType type, int place, Comm) {
    *op = 100;
    std::uint64_t bits = 0;
    std::memcpy(&bits, factor, type == nccl_api::float16 ? 2 : type == nccl_api::float32 ? 4 : 8);
    return fake->enter("make_op",
                       fmt::format("make_op {:#x} of type {} from {}", bits, type, place));
  }
  static Result destroy_op(Op op, Comm) {
    return fake->enter("destroy_op", fmt::format("destroy_op {}", op));
  }
  static Result abort(Comm comm) { return fake->enter("abort", "abort " + number_of(comm)); }
};

FakeNccl::FakeNccl() { fake = this; }
FakeNccl::~FakeNccl() { fake = nullptr; }

nccl_api::Functions FakeNccl::functions() const {
  nccl_api::Functions functions;
  functions.get_version.pointer = Calls::get_version;
  functions.error_text.pointer = Calls::error_text;
  functions.last_error.pointer = Calls::last_error;
  functions.get_unique_id.pointer = Calls::get_unique_id;
  functions.init_rank.pointer = Calls::init_rank;
  functions.split.pointer = Calls::split;
  functions.get_async_error.pointer = Calls::get_async_error;
  functions.finalize.pointer = Calls::finalize;
  functions.destroy.pointer = Calls::destroy;
  functions.abort.pointer = Calls::abort;
  functions.group_start.pointer = Calls::group_start;
  functions.group_end.pointer = Calls::group_end;
  functions.all_reduce.pointer = Calls::all_reduce;
  functions.broadcast.pointer = Calls::broadcast;
  functions.reduce.pointer = Calls::reduce;
  functions.all_gather.pointer = Calls::all_gather;
  functions.reduce_scatter.pointer = Calls::reduce_scatter;
  functions.send.pointer = Calls::send;
  functions.recv.pointer = Calls::recv;
  functions.make_premul_sum.pointer = Calls::make_premul_sum;
  functions.destroy_op.pointer = Calls::destroy_op;
  return functions;
}

void FakeNccl::hold(const std::string& name) {
  std::lock_guard lock(mutex_);
  held_.push_back(name);
}

void FakeNccl::release() {
  std::lock_guard lock(mutex_);
  held_.clear();
  changed_.notify_all();
}

void FakeNccl::fail(const std::string& name, Result result) {
  std::lock_guard lock(mutex_);
  failures_[name] = result;
}

// Notes the call, and returns when it may.
Result FakeNccl::enter(const std::string& name, const std::string& call) {
  std::unique_lock lock(mutex_);
  calls_.push_back(call);
  changed_.notify_all();
  changed_.wait(lock, [&] { return std::find(held_.begin(), held_.end(), name) == held_.end(); });
  const auto failure = failures_.find(name);
  if (failure == failures_.end()) return nccl_api::success;
  const Result result = failure->second;
  failures_.erase(failure);
  return result;
}

Comm FakeNccl::make() { return reinterpret_cast<Comm>(++made_); }

std::string FakeNccl::number_of(Comm comm) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(comm));
}

std::vector<std::string> FakeNccl::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

bool FakeNccl::has_called(const std::string& call) const {
  std::lock_guard lock(mutex_);
  return std::find(calls_.begin(), calls_.end(), call) != calls_.end();
}

bool FakeNccl::wait_for(const std::string& call) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
    return std::find(calls_.begin(), calls_.end(), call) != calls_.end();
  });
}

Config FakeNccl::last_config() const {
  std::lock_guard lock(mutex_);
  return config_;
}

std::string FakeNccl::last_net_name() const {
  std::lock_guard lock(mutex_);
  return net_name_;
}

std::vector<UniqueId> FakeNccl::ids() const {
  std::lock_guard lock(mutex_);
  return ids_;
}

}  // namespace hymn::test
