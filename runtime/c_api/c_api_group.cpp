// The C API: groups and works.
#include <vector>

#include "runtime/c_api/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::ProcessGroup;

namespace {

template <class T, class Get>
hymnResult_t query_group(const char* function, hymnGroup_t group, T* result, const char* name,
                         Get&& get) {
  return guarded(function, [&] {
    need(result, name);
    *result = get(need(group, "group")->group);
  });
}

/// NULLs are empty.
std::vector<hymn::Work> works_of(const hymnWork_t* works, std::size_t n) {
  if (n > 0) need(works, "works");
  std::vector<hymn::Work> all(n);
  for (std::size_t i = 0; i < n; ++i)
    if (works[i] != nullptr) all[i] = works[i]->work;
  return all;
}

}  // namespace

hymnResult_t hymnGroupDestroy(hymnGroup_t group) {
  return guarded(__func__, [&] { need(group, "group")->group.destroy(); });
}

hymnResult_t hymnGroupAbort(hymnGroup_t group, const char* reason) {
  return guarded(__func__, [&] { need(group, "group")->group.abort(need(reason, "reason")); });
}

hymnResult_t hymnGroupFree(hymnGroup_t group) {
  return guarded(__func__, [&] {
    if (need(group, "group")->of_world) {
      throw hymn::UsageError("the group of all ranks belongs to its world and ends with it");
    }
    const std::unique_ptr<hymnGroup> handle(group);
    if (!handle->is_shared) handle->group.destroy();
  });
}

hymnResult_t hymnGroupRank(hymnGroup_t group, int* group_rank) {
  return query_group(__func__, group, group_rank, "group_rank",
                     [](const ProcessGroup& g) { return g.rank(); });
}

hymnResult_t hymnGroupSize(hymnGroup_t group, int* size) {
  return query_group(__func__, group, size, "size", [](const ProcessGroup& g) { return g.size(); });
}

hymnResult_t hymnGroupTag(hymnGroup_t group, const char** tag) {
  return query_group(__func__, group, tag, "tag",
                     [](const ProcessGroup& g) { return g.membership().tag.c_str(); });
}

hymnResult_t hymnGroupToGlobal(hymnGroup_t group, int group_rank, int* rank) {
  return query_group(__func__, group, rank, "rank",
                     [=](const ProcessGroup& g) { return g.global_rank(group_rank); });
}

hymnResult_t hymnGroupFromGlobal(hymnGroup_t group, int rank, int* group_rank) {
  return query_group(__func__, group, group_rank, "group_rank",
                     [=](const ProcessGroup& g) { return g.group_rank(rank); });
}

hymnResult_t hymnGroupSetTimeout(hymnGroup_t group, double seconds) {
  return guarded(__func__, [&] {
    ProcessGroup& target = need(group, "group")->group;
    if (seconds == HYMN_TIMEOUT_DEFAULT) {
      throw hymn::UsageError("a timeout of 0 seconds has no meaning here",
                             {.remedy = "give a positive number, or a negative one for no limit"});
    }
    target.set_timeout(timeout_of(seconds));
  });
}

hymnResult_t hymnGroupGetTimeout(hymnGroup_t group, double* seconds) {
  return query_group(__func__, group, seconds, "seconds",
                     [](const ProcessGroup& g) { return seconds_of(g.timeout()); });
}

hymnResult_t hymnGroupUses(hymnGroup_t group, const char* path, const char* algorithm,
                           uint64_t* uses) {
  return query_group(__func__, group, uses, "uses", [=](const ProcessGroup& g) {
    uint64_t sum = 0;
    for (const hymn::AlgorithmUse& use : g.uses())
      if ((path == nullptr || use.path == path) &&
          (algorithm == nullptr || use.algorithm == algorithm))
        sum += use.count;
    return sum;
  });
}

hymnResult_t hymnWorkTest(hymnWork_t work, int* done) {
  return guarded(__func__, [&] {
    need(done, "done");
    *done = need(work, "work")->work.test() ? 1 : 0;
  });
}

hymnResult_t hymnWorkWait(hymnWork_t work) {
  return guarded(__func__, [&] { need(work, "work")->work.wait(); });
}

hymnResult_t hymnWorkWaitTimeout(hymnWork_t work, double seconds) {
  return guarded(__func__, [&] { need(work, "work")->work.wait(timeout_of(seconds)); });
}

hymnResult_t hymnWaitAll(hymnWork_t* works, size_t n, double seconds) {
  return guarded(__func__, [&] {
    std::vector<hymn::Work> all = works_of(works, n);
    hymn::wait_all(all, option_timeout(seconds));
  });
}

hymnResult_t hymnWaitAny(hymnWork_t* works, size_t n, double seconds, size_t* index) {
  return guarded(__func__, [&] {
    need(index, "index");
    std::vector<hymn::Work> all = works_of(works, n);
    *index = hymn::wait_any(all, option_timeout(seconds));
  });
}

hymnResult_t hymnWorkWaitOn(hymnWork_t work, hymnStream_t stream) {
  return guarded(__func__, [&] { need(work, "work")->work.wait_on(stream); });
}

hymnResult_t hymnWorkError(hymnWork_t work, hymnResult_t* error) {
  return guarded(__func__, [&] {
    need(error, "error");
    const std::exception_ptr failure = need(work, "work")->work.error();
    *error = failure ? record_failure("hymnWorkError", failure) : hymnSuccess;
  });
}

hymnResult_t hymnWorkStatus(hymnWork_t work, size_t index, hymnRecvStatus_t* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    const hymn::Work& of = need(work, "work")->work;
    hymn::RecvStatus received;
    if (of.type() == hymn::OpType::batch) {
      const std::vector<hymn::RecvStatus> all = of.statuses();
      if (index >= all.size()) {
        throw hymn::UsageError("the batch has no receive number " + std::to_string(index) +
                               " counted from 0; it has " + std::to_string(all.size()));
      }
      received = all[index];
    } else if (index == 0) {
      received = of.status();
    } else {
      throw hymn::UsageError("a work that is not a batch has at most one receive, with index 0");
    }
    *status = {received.source, received.tag, received.count};
  });
}

hymnResult_t hymnWorkFree(hymnWork_t work) {
  return guarded(__func__, [&] { delete need(work, "work"); });
}
