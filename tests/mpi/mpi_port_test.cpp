// How receives over MPI are given up, with messages of a rank to itself.
#include "p2p/mpi/mpi_port.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

namespace hymn::test {
namespace {

class MpiPort : public testing::Test {
 protected:
  MpiPort() {
    auto channel = std::make_shared<MpiChannel>();
    channel->communicator = MPI_COMM_SELF;
    channel->gate = std::make_shared<MpiGate>(ThreadLevel::funneled, std::this_thread::get_id());
    port_ = make_mpi_port(channel);
  }
  std::unique_ptr<Transfers> send(const std::vector<std::int32_t>& data) {
    auto transfers = port_->open();
    transfers->send(0, tag, ConstBufferView(data));
    return transfers;
  }
  std::unique_ptr<Transfers> recv(std::vector<std::int32_t>& data) {
    auto transfers = port_->open();
    transfers->recv(0, tag, BufferView(data));
    return transfers;
  }
  std::unique_ptr<Transfers> open() { return port_->open(); }
  static void finish(Transfers& transfers) {
    while (!transfers.test()) std::this_thread::yield();
  }
  static constexpr MessageTag tag{true, 5};

 private:
  std::shared_ptr<MessagePort> port_;
};

std::vector<std::int32_t> numbers(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

constexpr std::size_t few = 100;
constexpr std::size_t many = 10'000'000;

TEST_F(MpiPort, AReceiveThatIsGivenUpLeavesTheNextMessageAlone) {
  for (const std::size_t count : {few, many}) {
    const auto sent = numbers(count);
    std::vector<std::int32_t> given_up(count);
    std::vector<std::int32_t> got(count);
    EXPECT_EQ(recv(given_up)->abandon("impatient"), nullptr);
    const auto out = send(sent);
    const auto in = recv(got);
    finish(*in);
    finish(*out);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(given_up, std::vector<std::int32_t>(count));
  }
}

// Of a collective that is given up the buffers of such receives are free.
TEST_F(MpiPort, ACollectivesReceivesAreTakenBackToo) {
  constexpr MessageTag collective{false, 5};
  for (const std::size_t count : {few, many}) {
    const auto sent = numbers(count);
    std::vector<std::int32_t> first(count);
    std::vector<std::int32_t> second(count);
    auto in = open();
    in->recv(0, collective, BufferView(first));
    in->recv(0, collective, BufferView(second));
    EXPECT_EQ(in->abandon("impatient"), nullptr);
    const auto out = open();
    out->send(0, collective, ConstBufferView(sent));
    std::vector<std::int32_t> got(count);
    const auto next = open();
    next->recv(0, collective, BufferView(got));
    finish(*next);
    finish(*out);
    EXPECT_EQ(got, sent);
    EXPECT_EQ(first, std::vector<std::int32_t>(count));
    EXPECT_EQ(second, std::vector<std::int32_t>(count));
  }
}

// Its message would be missing: whoever gives it up must learn that.
TEST_F(MpiPort, AReceiveWhoseMessageHasComeCannotBeTakenBack) {
  for (const std::size_t count : {few, many}) {
    const auto sent = numbers(count);
    std::vector<std::int32_t> got(count);
    const auto in = recv(got);
    const auto out = send(sent);
    const auto abandoned = in->abandon("impatient");
    ASSERT_NE(abandoned, nullptr);
    while (!abandoned->done()) std::this_thread::yield();
    finish(*out);
    EXPECT_EQ(got, sent);
  }
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
