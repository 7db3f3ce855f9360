// Collectives of random programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/random/named_calls.hpp"
#include "tests/random/player.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

/// Where slots, rings and chunks end, in bytes.
constexpr std::array<std::size_t, 7> edges = {64,        4096,       8u << 10,  16u << 10,
                                              64u << 10, 128u << 10, 256u << 10};
constexpr std::array<std::size_t, 8> primes = {3, 7, 13, 31, 127, 509, 4093, 65521};

constexpr std::size_t most_bytes = std::size_t{4} << 20;

DataType dtype_of(const Request& request) {
  return all_have_outputs(request.type) ? request.outputs.dtype() : request.inputs.dtype();
}

/// Whether the two can be coalesced.
bool is_like(const Request& one, const Request& other) {
  return dtype_of(one) == dtype_of(other) &&
         (!reduces(one.type) || one.op.kind() == other.op.kind()) &&
         (!has_root(one.type) || one.peer == other.peer);
}

}  // namespace

std::size_t draw_count(Drawer& drawer, std::size_t element_bytes, std::size_t parts) {
  const std::size_t width = element_bytes * parts;
  std::size_t count = 0;
  switch (drawer.below(8)) {
    case 0:
      count = drawer.below(3);
      break;
    case 1:
      count = (std::size_t{1} << drawer.below(15)) + drawer.below(3);
      count -= std::min<std::size_t>(count, 1);
      break;
    case 2:
      count = drawer.one_of(primes);
      break;
    case 3:
      count = drawer.one_of(edges) / width + drawer.below(3);
      count -= std::min<std::size_t>(count, 1);
      break;
    case 4:
      count = drawer.one_in(6) ? drawer.below(300'000) : drawer.below(100);
      break;
    default:
      count = drawer.below(std::size_t{1} << drawer.below(14));
  }
  return std::min(count, most_bytes / width);
}

bool Player::is_refused(std::size_t id, const Request& request) {
  bool is_taken = false;
  const bool is_there = attempt(id, [&] {
    ProcessGroup& group = this->group(id);
    is_taken = !group.explain(request).algorithm.empty();
    if (is_taken || !own_.one_in(4) || !script_.ends_together) return;
    try {
      group.run(request);
      ADD_FAILURE() << "what explain() finds no algorithm for is not refused";
    } catch (const UnsupportedError&) {
    }
  });
  return !is_there || !is_taken;
}

std::shared_ptr<KnownCall> Player::draw_call(const Step& step, OpType type) {
  const Cell cell = common_.one_of(cells_of(type));
  const std::vector<int>& members = script_.groups[step.group].members;
  const std::size_t parts = has_blocks(type) ? members.size() : 1;
  const std::size_t count = draw_count(common_, size_of(cell.dtype), parts);
  CallPlan plan = common_.plan(type, cell, count, static_cast<int>(members.size()));
  const CallPlan mine = own_.plan(type, cell, count, static_cast<int>(members.size()));
  plan.in_offset = mine.in_offset;
  plan.out_offset = mine.out_offset;
  if (rules_.mixes_in_place) plan.in_place = mine.in_place;
  if (!is_member(step.group)) return nullptr;
  return std::make_shared<KnownCall>(group(step.group), plan);
}

void Player::call(const Step& step) {
  const std::shared_ptr<KnownCall> made = draw_call(step, common_.one_of(collectives()));
  if (!made) return;
  ProcessGroup& group = this->group(step.group);
  const Request& request = made->request();
  if (is_refused(step.group, request)) return;
  Flight flight{.step = step.number, .group = step.group, .what = made->describe()};
  flight.check = [made](std::span<const RecvStatus>) { made->check(); };
  const bool by_name = own_.one_in(2);
  run_or_start(
      std::move(flight),
      [&]() -> std::vector<RecvStatus> {
        if (!by_name || !run_by_name(group, request)) group.run(request);
        return {};
      },
      [&] {
        Work work;
        if (by_name) work = start_by_name(group, request);
        return work.valid() ? work : group.start(request);
      });
}

// A scope keeps what is called in it, in any way.
Work Player::in_scope(ProcessGroup& group, std::span<const Request> requests) {
  return coalesce_async(group, [&] {
    for (const Request& request : requests) {
      const std::size_t way = own_.below(4);
      if (way == 0 && is_collective(request.type) && run_by_name(group, request)) continue;
      if (way < 3)
        group.run(request);
      else
        EXPECT_FALSE(group.start(request).valid());
    }
  });
}

void Player::coalesced(const Step& step) {
  const OpType type = common_.one_of(collectives());
  std::vector<std::shared_ptr<KnownCall>> made;
  for (std::size_t number = 1 + common_.below(5); number > 0; --number)
    made.push_back(draw_call(step, type));
  if (!made.front()) return;
  // What is not like the first is left out, on all ranks.
  std::erase_if(made, [&first = made.front()->request()](const auto& call) {
    return !is_like(first, call->request());
  });
  ProcessGroup& group = this->group(step.group);
  Flight flight{.step = step.number, .group = step.group, .what = "coalesced"};
  std::vector<Request> requests;
  for (const auto& call : made) {
    requests.push_back(call->request());
    flight.what += ", " + call->describe();
  }
  for (const Request& request : requests)
    if (is_refused(step.group, request)) return;
  flight.check = [made](std::span<const RecvStatus>) {
    for (const auto& call : made) call->check();
  };
  const bool has_scope = own_.one_in(2);
  const auto start = [&] {
    return has_scope ? in_scope(group, requests) : group.start_coalesced(requests);
  };
  run_or_start(
      std::move(flight),
      [&]() -> std::vector<RecvStatus> {
        start().wait();
        return {};
      },
      start);
}

}  // namespace hymn::test
