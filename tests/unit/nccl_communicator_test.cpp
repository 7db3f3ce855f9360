// The life of NCCL's communicators, over a double of NCCL.
#include "collectives/nccl/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "collectives/nccl/agreement.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "tests/unit/eventually.hpp"
#include "tests/unit/fake_clock.hpp"
#include "tests/unit/fake_nccl.hpp"

namespace hymn::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t tag = 77;

/// The communicators of all ranks of a world, stepped in turns by one thread.
class Ranks {
 public:
  explicit Ranks(int count, NcclSettings settings = {}) : settings_(std::move(settings)) {
    const auto hub = std::make_shared<ThreadHub>(count);
    std::vector<int> members;
    for (int rank = 0; rank < count; ++rank) members.push_back(rank);
    for (int rank = 0; rank < count; ++rank)
      comms_.push_back(std::make_unique<NcclCommunicator>(
          parts(), std::make_shared<ThreadExchange>(hub, rank), members, tag));
  }
  /// Nothing may be left in the double when it goes.
  ~Ranks() {
    nccl.release();
    for (const auto& comm : comms_) comm->abort();
    EXPECT_TRUE(eventually([this] {
      return std::all_of(comms_.begin(), comms_.end(), [](const auto& c) { return c->is_gone(); });
    }));
  }

  NcclParts parts() {
    return {.nccl = nccl.functions(), .enter_gpu = [this] { ++entered; }, .settings = settings_};
  }
  NcclCommunicator& operator[](std::size_t rank) { return *comms_[rank]; }
  void add(std::unique_ptr<NcclCommunicator> comm) { comms_.push_back(std::move(comm)); }
  bool step_all() {
    bool ready = true;
    for (const auto& comm : comms_) ready = comm->step() && ready;
    return ready;
  }
  bool make_all() {
    return eventually([this] { return step_all(); });
  }

  FakeNccl nccl;
  std::atomic<int> entered{0};

 private:
  NcclSettings settings_;
  std::vector<std::unique_ptr<NcclCommunicator>> comms_;
};

/// Passes quickly, by itself.
struct ShortPatience {
  ShortPatience() {
    clock.set_step(std::chrono::milliseconds(10));
    patience.clock = &clock;
    patience.deadline = Deadline::after(Timeout(std::chrono::seconds(1)), clock.now());
    patience.purpose = "making NCCL's communicator of group 3";
    patience.context = {.rank = 0, .group = "layers#3"};
  }
  FakeClock clock;
  Patience patience;
};

template <class Thrown>
Thrown thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Thrown& error) {
    return error;
  }
  throw std::runtime_error("nothing was thrown");
}

TEST(NcclCommunicator, IsMadeOfOneId) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.make_all());
  EXPECT_THAT(ranks.nccl.calls(),
              UnorderedElementsAre("id", "init 0 of 3", "init 1 of 3", "init 2 of 3"));
  for (const nccl_api::UniqueId& id : ranks.nccl.ids())
    EXPECT_EQ(id.bytes, ranks.nccl.ids()[0].bytes);
  EXPECT_NE(ranks.nccl.ids()[0].bytes[127], 0) << "the id was cut";
  EXPECT_EQ(ranks.entered, 3) << "a call was made without the rank's GPU";
  EXPECT_NE(ranks[0].handle(), ranks[1].handle());
}

TEST(NcclCommunicator, NothingIsMadeBeforeItIsNeeded) {
  Ranks ranks(2);
  EXPECT_THAT(ranks.nccl.calls(), IsEmpty());
  EXPECT_FALSE(ranks[1].step());
  EXPECT_FALSE(ranks[1].step());
  EXPECT_THAT(ranks.nccl.calls(), IsEmpty()) << "without the id of the first";
}

TEST(NcclCommunicator, PassesSettingsOn) {
  Ranks ranks(1, {.min_ctas = 2, .max_ctas = 8, .cga_cluster_size = 4, .net_name = "Socket"});
  ASSERT_TRUE(ranks.make_all());
  const nccl_api::Config config = ranks.nccl.last_config();
  EXPECT_EQ(config.blocking, 0);
  EXPECT_EQ(config.min_ctas, 2);
  EXPECT_EQ(config.max_ctas, 8);
  EXPECT_EQ(config.cga_cluster_size, 4);
  EXPECT_EQ(config.split_share, nccl_api::Config::unset);
  EXPECT_EQ(ranks.nccl.last_net_name(), "Socket");
}

TEST(NcclCommunicator, IsReadyOnlyWhenNcclSaysSo) {
  Ranks ranks(1);
  ranks.nccl.set_state(nccl_api::in_progress);
  ASSERT_TRUE(eventually([&] { return ranks.step_all() || ranks.nccl.has_called("init 0 of 1"); }));
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(ranks[0].step());
  ranks.nccl.set_state(nccl_api::success);
  EXPECT_TRUE(ranks.make_all());
}

/// An exchange in which nothing leaves before the test says so.
class HeldExchange final : public Exchange {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void send(int, std::uint64_t, std::span<const std::byte> bytes) override { sent = bytes.size(); }
  std::optional<ExchangeMessage> try_receive(int, std::uint64_t) override { return std::nullopt; }
  bool has_left(std::uint64_t) override { return leaves; }
  std::string name() const override { return "held"; }
  std::size_t sent = 0;
  bool leaves = false;
};

TEST(NcclCommunicator, TheFirstEntersOnlyWhenTheIdHasLeft) {
  Ranks none(0);
  const auto exchange = std::make_shared<HeldExchange>();
  none.add(std::make_unique<NcclCommunicator>(none.parts(), exchange, std::vector{0, 1}, tag));
  for (int i = 0; i < 100; ++i) none[0].step();
  EXPECT_EQ(exchange->sent, 128u);
  EXPECT_THAT(none.nccl.calls(), ElementsAre("id"));
  exchange->leaves = true;
  EXPECT_TRUE(none.make_all());
}

TEST(NcclCommunicator, TheDeadlineIsSeenWhileInitBlocks) {
  Ranks ranks(1);
  ranks.nccl.hold("init");
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ranks[0].step());
  ASSERT_TRUE(ranks.nccl.wait_for("init 0 of 1"));
  const ShortPatience patience;
  const auto error = thrown_by<TimeoutError>([&] { ranks[0].complete(patience.patience); });
  EXPECT_THAT(error.what(), HasSubstr("making NCCL's communicator of group 3: waited"));
  EXPECT_THAT(error.what(), HasSubstr("[rank 0, group 'layers#3']"));
  EXPECT_FALSE(ranks[0].is_gone());
  EXPECT_THAT(ranks.nccl.calls(), ElementsAre("id", "init 0 of 1"));
  // What comes of it after all is given up at once.
  ranks.nccl.release();
  EXPECT_TRUE(ranks.nccl.wait_for("abort 1"));
}

TEST(NcclCommunicator, TheDeadlineIsSeenWhileNcclIsBusy) {
  Ranks ranks(1);
  ranks.nccl.set_state(nccl_api::in_progress);
  const ShortPatience patience;
  EXPECT_THROW(ranks[0].complete(patience.patience), TimeoutError);
  EXPECT_TRUE(ranks.nccl.wait_for("abort 1"));
}

TEST(NcclCommunicator, ADeadMemberIsNotWaitedFor) {
  Ranks ranks(3);
  Patience patience;
  patience.purpose = "making it";
  patience.is_hopeless = [](int rank) { return rank == 2; };
  ranks.nccl.set_state(nccl_api::in_progress);
  const auto error = thrown_by<TimeoutError>([&] { ranks[0].complete(patience); });
  EXPECT_THAT(error.context().missing, ElementsAre(2));
  EXPECT_THAT(error.what(), HasSubstr("in vain: rank(s) 2"));
}

TEST(NcclCommunicator, WithoutAnIdNcclIsLeftAlone) {
  Ranks ranks(2);
  const ShortPatience patience;
  EXPECT_THROW(ranks[1].complete(patience.patience), TimeoutError);
  EXPECT_TRUE(ranks[1].is_gone());
  EXPECT_THAT(ranks.nccl.calls(), IsEmpty());
}

TEST(NcclCommunicator, FailuresOfNcclAreThrown) {
  Ranks ranks(1);
  ranks.nccl.fail("init", nccl_api::system_error);
  const auto error = thrown_by<BackendError>([&] { ranks[0].complete({}); });
  EXPECT_EQ(error.backend(), "NCCL");
  EXPECT_EQ(error.code(), nccl_api::system_error);
  EXPECT_THAT(error.what(), HasSubstr("ncclCommInitRankConfig failed with unhandled system error: "
                                      "the test wants it so"));
  EXPECT_TRUE(eventually([&] { return ranks[0].is_gone(); })) << "there is nothing to abort";
  EXPECT_FALSE(ranks.nccl.has_called("abort 1"));
}

TEST(NcclCommunicator, FailuresWhileItIsMadeOrUsedAreFound) {
  Ranks ranks(1);
  ranks.nccl.set_state(nccl_api::remote_error);
  EXPECT_EQ(thrown_by<BackendError>([&] { ranks[0].complete({}); }).code(), nccl_api::remote_error);
  EXPECT_TRUE(ranks.nccl.wait_for("abort 1"));

  Ranks more(1);
  ASSERT_TRUE(more.make_all());
  more[0].check();
  more.nccl.set_state(nccl_api::in_progress);
  more[0].check();
  more.nccl.set_state(nccl_api::remote_error);
  const auto error = thrown_by<BackendError>([&] { more[0].check(); });
  EXPECT_THAT(error.what(), HasSubstr("remote process exited"));
  EXPECT_THAT(error.context().remedy, HasSubstr("lost a peer"));
}

TEST(NcclCommunicator, AnAbortThatHangsHoldsNobody) {
  Ranks ranks(1);
  ASSERT_TRUE(ranks.make_all());
  ranks.nccl.hold("abort");
  ranks[0].abort();
  ranks[0].abort();
  ASSERT_TRUE(ranks.nccl.wait_for("abort 1"));
  EXPECT_FALSE(ranks[0].is_gone()) << "NCCL may still use the buffers";
  ranks.nccl.release();
  EXPECT_TRUE(eventually([&] { return ranks[0].is_gone(); }));
  EXPECT_THAT(ranks.nccl.calls(), ElementsAre("id", "init 0 of 1", "abort 1"));
}

TEST(NcclCommunicator, EndsInGoodOrder) {
  Ranks ranks(1);
  ASSERT_TRUE(ranks.make_all());
  ranks[0].finish();
  ASSERT_TRUE(eventually([&] { return ranks[0].is_gone(); }));
  ranks[0].abort();
  EXPECT_THAT(ranks.nccl.calls(), ElementsAre("id", "init 0 of 1", "finalize 1", "destroy 1"));
}

TEST(NcclCommunicator, AnEndThatGoesWrongIsAnAbort) {
  Ranks ranks(1);
  ASSERT_TRUE(ranks.make_all());
  ranks.nccl.fail("finalize", nccl_api::system_error);
  ranks[0].finish();
  EXPECT_TRUE(ranks.nccl.wait_for("abort 1"));

  Ranks stuck(1);
  ASSERT_TRUE(stuck.make_all());
  stuck.nccl.fail("finalize", nccl_api::in_progress);
  stuck.nccl.set_state(nccl_api::in_progress);
  stuck[0].finish();
  ASSERT_TRUE(stuck.nccl.wait_for("finalize 1"));
  stuck[0].abort();
  EXPECT_TRUE(stuck.nccl.wait_for("abort 1"));
}

TEST(NcclCommunicator, IsSplitByAllRanksOfTheParent) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.make_all());
  for (const std::size_t rank : {0u, 1u, 2u}) {
    const int color = rank == 1 ? nccl_api::no_color : 7;
    ranks.add(std::make_unique<NcclCommunicator>(ranks.parts(), ranks[rank], color));
  }
  ASSERT_TRUE(ranks.make_all());
  EXPECT_NE(ranks[3].handle(), nullptr);
  EXPECT_EQ(ranks[4].handle(), nullptr) << "a rank that is in no part";
  EXPECT_NE(ranks[5].handle(), nullptr);
  int splits = 0;
  for (const std::string& call : ranks.nccl.calls()) splits += call.starts_with("split") ? 1 : 0;
  EXPECT_EQ(splits, 3);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    const auto parent = reinterpret_cast<std::uintptr_t>(ranks[rank].handle());
    const std::string call = "split " + std::to_string(parent) + " color " +
                             (rank == 1 ? "-1" : "7") + " key " + std::to_string(rank);
    EXPECT_TRUE(ranks.nccl.has_called(call)) << call;
  }
  ranks[4].check();
}

// --- What ranks tell each other before

std::string refusal_of(const std::vector<NcclLibrary>& libraries) {
  std::vector<int> members;
  std::vector<Bytes> words;
  for (const NcclLibrary& library : libraries) {
    members.push_back(static_cast<int>(words.size()) * 2);
    words.push_back(introduce(library));
  }
  try {
    require_same_nccl(members, words);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(NcclAgreement, NeedsOneVersion) {
  const NcclLibrary newer{.functions = {}, .version = 22809, .problem = ""};
  const NcclLibrary older{.functions = {}, .version = 21803, .problem = ""};
  EXPECT_EQ(refusal_of({newer}), "");
  EXPECT_EQ(refusal_of({newer, newer, newer}), "");
  EXPECT_THAT(refusal_of({newer, older, newer}),
              HasSubstr("2.18.3 on rank(s) 2; 2.28.9 on rank(s) 0, 4"));
  const NcclLibrary none{.functions = {}, .version = 0, .problem = "libnccl.so.2: no such file"};
  EXPECT_THAT(refusal_of({newer, none}),
              HasSubstr("NCCL cannot be used on rank 2: libnccl.so.2: no such file"));
}

}  // namespace
}  // namespace hymn::test
