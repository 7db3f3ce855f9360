// What belongs to the process that made it, seen from a child made by fork().
#include "base/own_process.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/child.hpp"

namespace hymn::test {
namespace {

struct Ends {
  ~Ends() { ++*count; }
  int* count;
};

TEST(OwnProcess, IsNotAChilds) {
  const OwnProcess here;
  EXPECT_TRUE(here.is_this());
  Child child([&] {
    const OwnProcess own;
    std::string seen = here.is_this() ? "parent's, " : "not parent's, ";
    seen += own.is_this() ? "own" : "not own";
    Child grandchild([&] { return own.is_this() ? "child's" : ""; });
    return seen + grandchild.report();
  });
  EXPECT_EQ(child.report(), "not parent's, own");
  EXPECT_TRUE(here.is_this());
}

TEST(OwnProcess, WatchesHearOfItInTheChildAlone) {
  int heard = 0;
  int heard_no_more = 0;
  const ForkWatch watch([&] { ++heard; });
  {
    const ForkWatch ended([&] { ++heard_no_more; });
  }
  Child child([&] { return std::to_string(heard) + std::to_string(heard_no_more); });
  EXPECT_EQ(child.report(), "10");
  EXPECT_EQ(heard, 0);
}

TEST(OwnProcess, ThingsEndWhereTheyWereMade) {
  int ended = 0;
  auto shared = make_shared_here<Ends>(&ended);
  UniqueHere<Ends> unique(new Ends{&ended});
  Child child([&] {
    shared.reset();
    unique.reset();
    std::string seen = std::to_string(ended);
    make_shared_here<Ends>(&ended);
    return seen + std::to_string(ended);
  });
  EXPECT_EQ(child.report(), "01");
  shared.reset();
  unique.reset();
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace hymn::test
