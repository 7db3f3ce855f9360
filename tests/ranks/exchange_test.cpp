// A World over an Exchange of the application's own: four functions are all it takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hymn/objects.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"

namespace hymn::test {
namespace {

struct Letter {
  std::uint64_t tag;
  ExchangeMessage message;
};

struct PostOffice {
  std::mutex mutex;
  std::vector<std::deque<Letter>> boxes;
};

class PostExchange final : public Exchange {
 public:
  PostExchange(std::shared_ptr<PostOffice> office, int rank)
      : office_(std::move(office)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(office_->boxes.size()); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    std::lock_guard lock(office_->mutex);
    office_->boxes.at(as_size(to)).push_back({tag, {rank_, {bytes.begin(), bytes.end()}}});
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    std::lock_guard lock(office_->mutex);
    auto& box = office_->boxes.at(as_size(rank_));
    const auto found = std::find_if(box.begin(), box.end(), [&](const Letter& letter) {
      return letter.tag == tag && (from == from_anyone || letter.message.source == from);
    });
    if (found == box.end()) return std::nullopt;
    ExchangeMessage message = std::move(found->message);
    box.erase(found);
    return message;
  }
  std::string name() const override { return "post"; }

 private:
  std::shared_ptr<PostOffice> office_;
  int rank_;
};

void use_everything(World& world) {
  ProcessGroup& group = world.group();
  EXPECT_EQ(group.explain(Request::barrier()).path, "exchange");
  for (const DataType dtype : {DataType::int8, DataType::bfloat16, DataType::complex128}) {
    const Buffer in = reduction_input(dtype, ReduceKind::premul_sum, world.rank(), 65);
    Buffer out(dtype, 65);
    group.all_reduce(in, out, op_of(ReduceKind::premul_sum, dtype, world.rank()));
    expect_equal(reduction_result(dtype, ReduceKind::premul_sum, ranks_of(group), 65), out);
  }
  BlockBuffer in(DataType::float8_e5m2, world.size(), 7);
  BlockBuffer out(DataType::float8_e5m2, world.size(), 7);
  in.fill_for_each(world.rank());
  Work work = group.all_to_all_async(in.view(), out.view());
  ProcessGroup last = world.new_group({world.size() - 1});
  if (last.is_member()) last.barrier();
  work.wait();
  out.expect_from_all(world.rank());
  const auto texts = all_gather_object(group, std::string(as_size(world.rank()), 'x'));
  EXPECT_EQ(texts.back(), std::string(as_size(world.size() - 1), 'x'));
  group.barrier();
}

/// Runs body(world) on ranks that the test itself has made.
template <class Body>
void on_own_ranks(int ranks, Body body) {
  const auto office = std::make_shared<PostOffice>();
  office->boxes.resize(as_size(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&office, &body, rank] {
      World world = World::over(std::make_shared<PostExchange>(office, rank), {.path = "exchange"});
      EXPECT_EQ(world.rank(), rank);
      body(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Exchange, OfTheApplicationCarriesAWorld) {
  for (const int ranks : {1, 2, 3, 5}) on_own_ranks(ranks, use_everything);
}

TEST(Exchange, CarriesSeveralWorldsOneAfterTheOther) {
  for (int i = 0; i < 3; ++i) on_own_ranks(2, use_everything);
}

TEST(Exchange, RanksThatDoNotComeAreNamed) {
  const auto office = std::make_shared<PostOffice>();
  office->boxes.resize(3);
  expect_error(ErrorKind::timeout,
               [&] {
                 World::over(std::make_shared<PostExchange>(office, 0),
                             {.timeout = std::chrono::milliseconds(50)});
               },
               {"1, 2", "making the world"});
}

TEST(Exchange, MustBeThere) {
  expect_error(ErrorKind::usage, [] { World::over(nullptr); });
}

}  // namespace
}  // namespace hymn::test
