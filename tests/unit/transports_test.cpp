// Who is reached by what, and collectives over several transports at once.
#include "p2p/transports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "p2p/exchange_port.hpp"
#include "p2p/part_port.hpp"
#include "p2p/shm/shm_port.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "tests/unit/shm_office.hpp"

namespace hymn::test {
namespace {

/// One that is only to be known again.
class NamedPort final : public MessagePort {
 public:
  explicit NamedPort(std::string_view name) : name_(name) {}
  Verdict can_carry(const Request&) const override { return Verdict::no(std::string(name_)); }
  std::unique_ptr<Transfers> open() override { return nullptr; }

 private:
  std::string_view name_;
};

std::shared_ptr<MessagePort> named(std::string_view name) {
  return std::make_shared<NamedPort>(name);
}

TEST(Transports, AMemberKeepsWhatReachesItFirst) {
  const auto least = named("least");
  const auto near = named("near");
  const auto wide = named("wide");
  Transports transports(4, least);
  EXPECT_EQ(transports.to(3), least);
  transports.add(near, std::array{0, 1});
  transports.add(wide);
  transports.add(named("late"));
  EXPECT_EQ(transports.to(0), near);
  EXPECT_EQ(transports.to(1), near);
  EXPECT_EQ(transports.to(2), wide);
  EXPECT_EQ(transports.to(3), wide);
  EXPECT_EQ(transports.least(), least);
}

TEST(Transports, MembersWithOneTransportAreReachedByThatAlone) {
  Transports transports(4, named("least"));
  const auto near = named("near");
  transports.add(near, std::array{0, 1});
  EXPECT_EQ(transports.reaching(std::array{0, 1}), near);
  EXPECT_EQ(transports.reaching(std::array{2, 3}), transports.least());
  const auto both = transports.reaching(std::array{1, 2});
  EXPECT_NE(both, near);
  EXPECT_NE(both, transports.least());
}

TEST(Transports, WhatOneOfThemCannotCarryNoneDoes) {
  Transports transports(2, named("least"));
  transports.add(named("near"), std::array{1});
  const Verdict verdict = transports.reaching(std::array{0, 1})->can_carry(Request::barrier());
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, "least");
}

/// Counts what it is given to send.
class CountedExchange final : public Exchange {
 public:
  CountedExchange(std::shared_ptr<ThreadHub> hub, int rank) : below_(std::move(hub), rank) {}
  int rank() const override { return below_.rank(); }
  int size() const override { return below_.size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    ++sent_to.at(static_cast<std::size_t>(to));
    below_.send(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return below_.try_receive(from, tag);
  }
  std::string name() const override { return "counted"; }

  std::array<int, 4> sent_to{};

 private:
  ThreadExchange below_;
};

/// Four ranks, stepped in one thread: 0 and 2 share memory, as do 1 and 3, and between the two
/// pairs messages go through an exchange.
class TwoPairs : public ::testing::Test {
 protected:
  static constexpr int size = 4;

  TwoPairs() {
    const auto hub = std::make_shared<ThreadHub>(size);
    for (int rank = 0; rank < size; ++rank) {
      exchanges.push_back(std::make_shared<CountedExchange>(hub, rank));
      const int pair = rank % 2;
      std::vector<int> places = {-1, -1, -1, -1};
      places[static_cast<std::size_t>(pair)] = 0;
      places[static_cast<std::size_t>(pair + 2)] = 1;
      Transports transports(size, make_exchange_port(exchanges.back(), {0, 1, 2, 3}));
      auto& office = offices[static_cast<std::size_t>(pair)];
      transports.add(
          make_part_port(make_shm_port(office.mail[static_cast<std::size_t>(rank / 2)]), places),
          std::array{pair, pair + 2});
      ports.push_back(transports.reaching(std::array{0, 1, 2, 3}));
    }
  }

  using Make = std::unique_ptr<Algorithm> (*)(const AlgorithmModel&, std::shared_ptr<MessagePort>,
                                              GroupShape);

  /// By all ranks; each gives its own request.
  void run(Make make, const std::vector<Request>& requests) {
    ++sequence;
    std::array<OperationStorage, size> storage;
    std::vector<std::unique_ptr<Algorithm>> algorithms;
    for (int rank = 0; rank < size; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      algorithms.push_back(
          make(pairwise_models::over_exchange, ports[i], {.rank = rank, .size = size}));
      EXPECT_TRUE(algorithms.back()->can_run(requests[i]).ok);
      algorithms.back()
          ->prepare(storage[i], {.request = &requests[i], .sequence = sequence})
          .start();
    }
    std::array<bool, size> done{};
    for (int round = 0; round < 1000; ++round)
      for (std::size_t i = 0; i < size; ++i) done[i] = done[i] || storage[i].get()->step();
    EXPECT_THAT(done, ::testing::Each(true));
  }

  std::array<Office, 2> offices{Office(2), Office(2)};
  std::vector<std::shared_ptr<CountedExchange>> exchanges;
  std::vector<std::shared_ptr<MessagePort>> ports;
  std::uint64_t sequence = 0;
};

TEST_F(TwoPairs, CollectivesTakeTheTransportOfEachPeer) {
  std::vector<std::int32_t> in[size];
  std::vector<std::int32_t> sum[size];
  std::vector<std::int32_t> all[size];
  std::vector<Request> reductions;
  std::vector<Request> gathers;
  for (int rank = 0; rank < size; ++rank) {
    in[rank] = {rank + 1, 10 * (rank + 1), 7};
    sum[rank].resize(3);
    all[rank].resize(3 * size);
    reductions.push_back(Request::all_reduce(in[rank], sum[rank]));
    gathers.push_back(Request::all_gather(in[rank], OutputBlocks::equal(all[rank])));
  }
  run(make_reduce_pairwise, reductions);
  run(make_move_pairwise, gathers);
  run(make_barrier_pairwise, std::vector<Request>(size, Request::barrier()));
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(sum[rank], (std::vector<std::int32_t>{10, 100, 28}));
    EXPECT_EQ(all[rank], (std::vector<std::int32_t>{1, 10, 7, 2, 20, 7, 3, 30, 7, 4, 40, 7}));
    const auto& sent_to = exchanges[static_cast<std::size_t>(rank)]->sent_to;
    EXPECT_EQ(sent_to[static_cast<std::size_t>((rank + 2) % size)], 0) << "that one shares memory";
    EXPECT_GT(sent_to[static_cast<std::size_t>((rank + 1) % size)], 0);
  }
}

TEST_F(TwoPairs, AReceiveTellsWhoseMessageItWas) {
  const std::int32_t sent[] = {5, 6};
  for (const int source : {2, 1}) {
    std::int32_t received[2] = {};
    const auto out = ports[static_cast<std::size_t>(source)]->open();
    const auto back = ports[0]->open();
    back->recv(source, MessageTag::of_user(9), BufferView(received, 2, DataType::int32));
    EXPECT_FALSE(back->test());
    out->send(0, MessageTag::of_user(9), ConstBufferView(sent, 2, DataType::int32));
    bool is_sent = false;
    bool has_come = false;
    for (int round = 0; round < 100; ++round) {
      is_sent = is_sent || out->test();
      has_come = has_come || back->test();
    }
    EXPECT_TRUE(is_sent && has_come);
    EXPECT_EQ(back->status().source, source);
    EXPECT_EQ(back->status().count, 2u);
    EXPECT_EQ(received[1], 6);
  }
}

TEST_F(TwoPairs, NobodyReceivesFromAnyoneThere) {
  std::int32_t value = 0;
  const BufferView view(&value, 1, DataType::int32);
  EXPECT_FALSE(ports[0]->can_carry(Request::recv(view, any_source)).ok);
  EXPECT_TRUE(ports[0]->can_carry(Request::recv(view, 1)).ok);
}

TEST_F(TwoPairs, WhatIsGivenUpIsGivenUpOnAllTransports) {
  std::int32_t value[2] = {};
  const auto transfers = ports[0]->open();
  const MessageTag tag = MessageTag::of_collective(1, 0, 0);
  transfers->recv(1, tag, BufferView(&value[0], 1, DataType::int32));
  transfers->recv(2, tag, BufferView(&value[1], 1, DataType::int32));
  EXPECT_FALSE(transfers->test());
  const auto abandoned = transfers->abandon("impatient");
  EXPECT_TRUE(abandoned == nullptr || abandoned->done());
  EXPECT_TRUE(offices[0].of(1).channel().is_aborted()) << "who shares memory is told";
}

TEST_F(TwoPairs, WhatCannotBeTakenBackIsTold) {
  const std::vector<std::int32_t> large(1 << 20);
  const auto transfers = ports[0]->open();
  transfers->send(2, MessageTag::of_user(9), ConstBufferView(large));
  EXPECT_FALSE(transfers->test()) << "nobody receives";
  const auto abandoned = transfers->abandon("impatient");
  ASSERT_NE(abandoned, nullptr) << "a part of the message has gone";
  EXPECT_TRUE(abandoned->done());
}

}  // namespace
}  // namespace hymn::test
