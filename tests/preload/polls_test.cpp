// Requests that a program looks at until they have ended: what is recorded of them ends with them.
#include "tests/preload/carried.hpp"

namespace preload_test {
namespace {

/// Requests of this process that are in flight, as is recorded.
long long open_requests() {
  using Query = long long();
  auto* const query = reinterpret_cast<Query*>(::dlsym(RTLD_DEFAULT, "hymnPreloadOpenRequests"));
  return query == nullptr ? -1 : query();
}

using Requests = std::vector<MPI_Request>;

/// Looks once; how many it has ended.
using Look = int (*)(Requests&);

int look_by_test(Requests& requests) {
  int ended = 0;
  for (MPI_Request& request : requests) {
    int flag = 0;
    const bool is_there = request != MPI_REQUEST_NULL;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    ended += is_there && flag != 0 ? 1 : 0;
  }
  return ended;
}

int look_by_testall(Requests& requests) {
  int flag = 0;
  const int count = static_cast<int>(requests.size());
  MPI_Testall(count, requests.data(), &flag, MPI_STATUSES_IGNORE);
  return flag != 0 ? count : 0;
}

int look_by_testany(Requests& requests) {
  int flag = 0;
  int index = MPI_UNDEFINED;
  MPI_Testany(static_cast<int>(requests.size()), requests.data(), &index, &flag, MPI_STATUS_IGNORE);
  return flag != 0 && index != MPI_UNDEFINED ? 1 : 0;
}

int look_by_testsome(Requests& requests) {
  int ended = 0;
  std::vector<int> which(requests.size());
  MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &ended, which.data(),
               MPI_STATUSES_IGNORE);
  return ended == MPI_UNDEFINED ? 0 : ended;
}

struct Way {
  const char* name;
  Look look;
};
const Way ways[] = {{"MPI_Test", look_by_test},
                    {"MPI_Testall", look_by_testall},
                    {"MPI_Testany", look_by_testany},
                    {"MPI_Testsome", look_by_testsome}};

/// Messages of this rank to itself, by a communicator of their own.
class Polls : public testing::Test {
 protected:
  Polls() { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
  ~Polls() override { MPI_Comm_free(&comm_); }

  int me() const { return rank_in(comm_); }
  void send(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      MPI_Send(&in_, 1, MPI_INT, me(), static_cast<int>(i), comm_);
  }
  /// Of receives that were started: none ends before its message is there, and then all do.
  void expect_end(const Way& way, Requests& requests, long long open_before) {
    const auto count = static_cast<int>(requests.size());
    EXPECT_EQ(way.look(requests), 0) << way.name;
    EXPECT_EQ(open_requests(), open_before + count) << way.name;
    send(requests.size());
    int ended = 0;
    while (ended < count) ended += way.look(requests);
    EXPECT_EQ(ended, count) << way.name;
    EXPECT_EQ(open_requests(), open_before) << way.name << " of " << count;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int in_ = 1;
  std::vector<int> out_ = std::vector<int>(100);
};

TEST_F(Polls, EndWhatTheyFind) {
  const long long open_before = open_requests();
  ASSERT_GE(open_before, 0) << "the library does not say";
  for (const Way& way : ways)
    for (const std::size_t count : {1u, 3u, 65u}) {
      Requests requests(count, MPI_REQUEST_NULL);
      for (std::size_t i = 0; i < count; ++i)
        MPI_Irecv(&out_[i], 1, MPI_INT, me(), static_cast<int>(i), comm_, &requests[i]);
      expect_end(way, requests, open_before);
    }
}

TEST_F(Polls, EndThoseThatAreStartedAgain) {
  const long long open_before = open_requests();
  for (const Way& way : ways) {
    Requests requests(3, MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < requests.size(); ++i)
      MPI_Recv_init(&out_[i], 1, MPI_INT, me(), static_cast<int>(i), comm_, &requests[i]);
    for (int round = 0; round < 2; ++round) {
      MPI_Startall(static_cast<int>(requests.size()), requests.data());
      EXPECT_EQ(open_requests(), open_before + 3) << way.name;
      send(requests.size());
      for (int tries = 0; open_requests() != open_before && tries < 1'000'000; ++tries)
        way.look(requests);
      EXPECT_EQ(open_requests(), open_before) << way.name;
    }
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
}

TEST_F(Polls, WaitsEndWhatTheyFind) {
  const long long open_before = open_requests();
  Requests requests(3, MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < 3; ++i)
    MPI_Irecv(&out_[i], 1, MPI_INT, me(), static_cast<int>(i), comm_, &requests[i]);
  MPI_Send(&in_, 1, MPI_INT, me(), 1, comm_);
  int index = 0;
  MPI_Waitany(3, requests.data(), &index, MPI_STATUS_IGNORE);
  EXPECT_EQ(index, 1);
  EXPECT_EQ(open_requests(), open_before + 2);
  MPI_Send(&in_, 1, MPI_INT, me(), 0, comm_);
  int ended = 0;
  int which[3] = {};
  MPI_Waitsome(3, requests.data(), &ended, which, MPI_STATUSES_IGNORE);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(open_requests(), open_before + 1);
  MPI_Send(&in_, 1, MPI_INT, me(), 2, comm_);
  MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE);
  EXPECT_EQ(open_requests(), open_before);
}

// MPI says what is wrong.
TEST_F(Polls, OfNothing) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int flag = 0;
  EXPECT_NE(MPI_Testall(3, nullptr, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(MPI_Testall(0, nullptr, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(flag, 1);
  MPI_Request none = MPI_REQUEST_NULL;
  EXPECT_EQ(MPI_Test(&none, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(flag, 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace preload_test
