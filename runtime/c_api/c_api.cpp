// The C API: errors, version, options, worlds, and ranks as threads.
#include "runtime/c_api/c_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "hymn/settings.hpp"
#include "hymn/threads.hpp"

namespace hymn::c_api {
namespace {

// A fixed place: recording an error must work when memory has run out.
thread_local std::array<char, 4096> last_error{};

/// On a thread of hymnThreadsRun.
thread_local hymnWorld_t handle_of_thread = nullptr;

constexpr std::array descriptions{
    "success",
    "usage error: the call is wrong, nothing was sent",
    "unsupported: this dtype, operation or machine cannot do it",
    "configuration error: an environment variable or option is unknown or malformed",
    "timeout: the time given has passed",
    "aborted: the group was given up earlier",
    "peer error: another rank failed",
    "network error: a connection was lost or could not be made",
    "store error: a key-value store failed or did not have a key in time",
    "backend error: MPI or another library reported a failure",
    "resource error: memory, descriptors or the like ran out",
    "internal error: a fault in hymn itself",
};
static_assert(descriptions.size() == hymnInternalError + 1);
static_assert(static_cast<int>(ErrorKind::usage) + 1 == hymnUsageError);
static_assert(static_cast<int>(ErrorKind::internal) + 1 == hymnInternalError);

void set_last_error(const char* function, const char* text) noexcept {
  std::size_t used = 0;
  for (const char* part : {function, ": ", text}) {
    const std::size_t length = std::min(std::strlen(part), last_error.size() - 1 - used);
    std::memcpy(last_error.data() + used, part, length);
    used += length;
  }
  last_error[used] = '\0';
}

/// Of ranks as threads, the lowest rank's own code is told, not that some rank failed.
hymnResult_t code_of_first(const RanksFailed& failed) noexcept {
  try {
    failed.rethrow_first();
  } catch (const Error& first) {
    return code_of(first.kind());
  } catch (const std::bad_alloc&) {
    return hymnResourceError;
  } catch (...) {
    return hymnInternalError;
  }
}

std::optional<Reproducibility> option_level(int level) {
  if (level == hymnReproducibleDefault) return std::nullopt;
  // Whatever number the caller's memory held.
  const auto index = static_cast<std::size_t>(level) - 1;
  if (index >= reproducibility_count)
    throw UsageError(
        fmt::format("options->reproducibility is {}, which is not a hymnReproducibility_t", level));
  return static_cast<Reproducibility>(index);
}

std::optional<ThreadLevel> option_thread_level(int given) {
  if (given == hymnThreadDefault) return std::nullopt;
  if (given < hymnThreadSingle || given > hymnThreadMultiple)
    throw UsageError(
        fmt::format("options->thread_level is {}, which is not a hymnThreadLevel_t", given));
  return static_cast<ThreadLevel>(given - 1);
}

/// > 0 yes, < 0 no, 0 as elsewhere.
std::optional<bool> option_switch(int given) {
  return given == 0 ? std::nullopt : std::optional(given > 0);
}

std::optional<int> option_number(int given) {
  return given == 0 ? std::nullopt : std::optional(given);
}

std::optional<NcclInit> option_init(int given) {
  if (given == hymnNcclInitDefault) return std::nullopt;
  if (given < hymnNcclInitLazy || given > hymnNcclInitBackground)
    throw UsageError(fmt::format("options->nccl_init is {}, which is not a hymnNcclInit_t", given));
  return static_cast<NcclInit>(given - 1);
}

/// Their values are judged where the group is made.
NcclOptions nccl_options_of(const hymnGroupOptions_t& given) {
  NcclOptions nccl;
  nccl.init = option_init(given.nccl_init);
  nccl.min_ctas = option_number(given.nccl_min_ctas);
  nccl.max_ctas = option_number(given.nccl_max_ctas);
  if (given.nccl_cga_size != 0) nccl.cga_size = std::max(given.nccl_cga_size, 0);
  if (given.nccl_net != nullptr) nccl.net_name = given.nccl_net;
  nccl.blocking = option_switch(given.nccl_blocking);
  nccl.reduce_in_float32 = option_switch(given.nccl_reduce_in_float32);
  nccl.timeout = option_timeout(given.nccl_timeout_seconds);
  return nccl;
}

GroupOptions group_options(const hymnGroupOptions_t* options) {
  const hymnGroupOptions_t given = read_options(options, "hymnGroupOptions_t");
  GroupOptions result;
  result.timeout = option_timeout(given.timeout_seconds);
  if (given.description != nullptr) result.description = given.description;
  if (given.path != nullptr) result.path = given.path;
  if (given.algo != nullptr) result.algo = given.algo;
  result.reproducibility = option_level(given.reproducibility);
  result.nccl = nccl_options_of(given);
  result.high_priority_stream = option_switch(given.high_priority_stream);
  if (given.gpu != nullptr) result.gpu = *given.gpu;
  result.local_sync = given.local_sync != 0;
  if (given.tag != nullptr) result.tag = given.tag;
  return result;
}

hymnWorld_t adopt_world(std::unique_ptr<hymnWorld> handle, World* world) {
  handle->world = world;
  handle->group.group = world->group();
  handle->group.of_world = true;
  return handle.release();
}

/// A handle of an empty one is NULL.
void hand_out_group(hymnGroup got, hymnGroup_t* group) {
  if (got.group.valid()) *group = std::make_unique<hymnGroup>(std::move(got)).release();
}

/// A handle of what `get` returns.
template <class Get>
hymnResult_t give_group(const char* function, hymnWorld_t world, const int* ranks, std::size_t n,
                        hymnGroup_t* group, Get&& get) {
  return guarded(function, [&] {
    *need(group, "group") = nullptr;
    World& of = *need(world, "world")->world;
    if (n > 0) need(ranks, "ranks");
    hand_out_group(get(of, std::span<const int>(ranks, n)), group);
  });
}

template <class T, class Get>
hymnResult_t query_world(const char* function, hymnWorld_t world, T* result, const char* name,
                         Get&& get) {
  return guarded(function, [&] { *need(result, name) = get(*need(world, "world")->world); });
}

}  // namespace

hymnResult_t code_of(ErrorKind kind) noexcept {
  return static_cast<hymnResult_t>(static_cast<int>(kind) + 1);
}

hymnResult_t record_failure(const char* function, const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const RanksFailed& failed) {
    set_last_error(function, failed.what());
    return code_of_first(failed);
  } catch (const Error& failure) {
    set_last_error(function, failure.what());
    return code_of(failure.kind());
  } catch (const std::bad_alloc&) {
    set_last_error(function, "out of memory");
    return hymnResourceError;
  } catch (const std::exception& failure) {
    set_last_error(function, failure.what());
    return hymnInternalError;
  } catch (...) {
    set_last_error(function, "an exception of an unknown type");
    return hymnInternalError;
  }
}

void require_success(const char* function, hymnResult_t code) {
  if (code == hymnSuccess) return;
  const std::string text =
      fmt::format("{} returned {} ({}); last error of its thread: '{}'", function,
                  static_cast<int>(code), hymnGetErrorString(code), hymnGetLastError());
  // By its type run_ranks tells a rank that was freed from one that has failed.
  if (code == hymnAbortedError) throw AbortedError(text);
  const bool known = code > hymnSuccess && code <= hymnInternalError;
  throw Error(known ? static_cast<ErrorKind>(static_cast<int>(code) - 1) : ErrorKind::usage, text);
}

void throw_size(const char* argument, const char* type, std::size_t given, std::size_t known) {
  throw UsageError(fmt::format("{}->size is {}, but {} has {} bytes", argument, given, type, known),
                   {.remedy = "start from its _INIT macro, and run with the libhymn that belongs "
                              "to the header, or a newer one"});
}

void throw_null(const char* name) { throw UsageError(fmt::format("{} is NULL", name)); }

Timeout timeout_of(double seconds) {
  if (std::isnan(seconds)) throw UsageError("a timeout is not a number (NaN)");
  // More than any clock can count is as good as none.
  if (seconds < 0 || seconds > 9e9) return Timeout::none();
  return std::chrono::duration<double>(seconds);
}

Timeout option_timeout(double seconds) {
  return seconds == HYMN_TIMEOUT_DEFAULT ? Timeout() : timeout_of(seconds);
}

double seconds_of(Timeout timeout) {
  if (!timeout.is_set() || timeout.is_none()) return HYMN_TIMEOUT_NONE;
  return std::chrono::duration<double>(timeout.duration()).count();
}

WorldOptions world_options(const hymnWorldOptions_t* options) {
  const hymnWorldOptions_t given = read_options(options, "hymnWorldOptions_t");
  WorldOptions result;
  result.timeout = option_timeout(given.timeout_seconds);
  if (given.progress_thread != 0) result.progress_thread = given.progress_thread > 0;
  if (given.path != nullptr) result.path = given.path;
  if (given.algo != nullptr) result.algo = given.algo;
  result.reproducibility = option_level(given.reproducibility);
  result.thread_level = option_thread_level(given.thread_level);
  return result;
}

hymnWorld_t make_world(World&& world) {
  auto handle = std::make_unique<hymnWorld>();
  World& own = handle->own.emplace(std::move(world));
  return adopt_world(std::move(handle), &own);
}

}  // namespace hymn::c_api

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::World;

const char* hymnGetLastError(void) { return last_error.data(); }

const char* hymnGetErrorString(hymnResult_t code) {
  const auto index = static_cast<std::size_t>(code);
  return index < descriptions.size() ? descriptions[index] : "not a hymnResult_t";
}

const char* hymnGetVersion(void) { return hymn::version(); }

hymnResult_t hymnInit(hymnWorld_t* world, const hymnWorldOptions_t* options) {
  return guarded(__func__, [&] {
    *need(world, "world") = nullptr;
    *world = make_world(World(world_options(options)));
  });
}

hymnResult_t hymnFinalize(hymnWorld_t world) {
  return guarded(__func__, [&] {
    if (!need(world, "world")->own) {
      throw hymn::UsageError("this world belongs to hymnThreadsRun and ends with its rank");
    }
    std::unique_ptr<hymnWorld> handle(world);
    try {
      world->world->destroy();
    } catch (...) {
      if (!world->world->is_destroyed())
        static_cast<void>(handle.release());  // it may be tried again
      throw;
    }
  });
}

hymnResult_t hymnThreadsRun(int ranks, hymnRankMain_t rank_main, void* user,
                            const hymnWorldOptions_t* options) {
  return guarded(__func__, [&] {
    if (rank_main == nullptr) throw_null("rank_main");
    // They outlive the worlds, at whose end hooks may still ask for them.
    std::vector<std::unique_ptr<hymnWorld>> handles(static_cast<std::size_t>(std::max(ranks, 0)));
    auto run_rank = [&](World& world) {
      auto& handle = handles[static_cast<std::size_t>(world.rank())];
      handle.reset(adopt_world(std::make_unique<hymnWorld>(), &world));
      handle_of_thread = handle.get();
      require_success("rank_main", rank_main(handle.get(), user));
    };
    hymn::run_ranks(ranks, run_rank, world_options(options));
  });
}

hymnResult_t hymnWorldCurrent(hymnWorld_t* world) {
  return guarded(__func__, [&] {
    *need(world, "world") = nullptr;
    static_cast<void>(World::current());  // throws where there is none
    if (handle_of_thread == nullptr)
      throw hymn::UsageError("this thread's rank is not one of hymnThreadsRun's",
                             {.remedy = "use hymn::World::current()"});
    *world = handle_of_thread;
  });
}

hymnResult_t hymnWorldRank(hymnWorld_t world, int* rank) {
  return query_world(__func__, world, rank, "rank", [](World& w) { return w.rank(); });
}
hymnResult_t hymnWorldSize(hymnWorld_t world, int* size) {
  return query_world(__func__, world, size, "size", [](World& w) { return w.size(); });
}
hymnResult_t hymnWorldLocalRank(hymnWorld_t world, int* local_rank) {
  return query_world(__func__, world, local_rank, "local_rank",
                     [](World& w) { return w.local_rank(); });
}
hymnResult_t hymnWorldLocalSize(hymnWorld_t world, int* local_size) {
  return query_world(__func__, world, local_size, "local_size",
                     [](World& w) { return w.local_size(); });
}
hymnResult_t hymnWorldHostCount(hymnWorld_t world, int* host_count) {
  return query_world(__func__, world, host_count, "host_count",
                     [](World& w) { return w.host_count(); });
}

hymnResult_t hymnWorldGpu(hymnWorld_t world, int* gpu) {
  return query_world(__func__, world, gpu, "gpu", [](World& w) { return w.gpu(); });
}

hymnResult_t hymnWorldGroup(hymnWorld_t world, hymnGroup_t* group) {
  return guarded(__func__, [&] {
    *need(group, "group") = nullptr;
    *group = &need(world, "world")->group;
  });
}

hymnResult_t hymnGroupCreate(hymnWorld_t world, const int* ranks, size_t n,
                             const hymnGroupOptions_t* options, hymnGroup_t* group) {
  return give_group(__func__, world, ranks, n, group, [&](World& of, std::span<const int> list) {
    const hymn::GroupOptions chosen = group_options(options);
    return hymnGroup{.group = of.new_group(list, chosen), .is_shared = !chosen.tag.empty()};
  });
}

hymnResult_t hymnGroupSplit(hymnGroup_t group, int color, int key,
                            const hymnGroupOptions_t* options, hymnGroup_t* split) {
  return guarded(__func__, [&] {
    *need(split, "split") = nullptr;
    const hymn::GroupOptions chosen = group_options(options);
    hand_out_group({.group = need(group, "group")->group.split(color, key, chosen),
                    .is_shared = !chosen.tag.empty()},
                   split);
  });
}

hymnResult_t hymnGroupFind(hymnWorld_t world, const char* tag, const int* ranks, size_t n,
                           hymnGroup_t* group) {
  return give_group(__func__, world, ranks, n, group, [&](World& of, std::span<const int> list) {
    return hymnGroup{.group = of.find_group(need(tag, "tag"), list), .is_shared = true};
  });
}

hymnResult_t hymnGroupFindOrCreate(hymnWorld_t world, const char* tag, const int* ranks, size_t n,
                                   size_t group_size, const hymnGroupOptions_t* options,
                                   hymnGroup_t* group) {
  return give_group(__func__, world, ranks, n, group, [&](World& of, std::span<const int> list) {
    return hymnGroup{.group = of.find_or_create_group(need(tag, "tag"), list, group_size,
                                                      group_options(options)),
                     .is_shared = true};
  });
}
