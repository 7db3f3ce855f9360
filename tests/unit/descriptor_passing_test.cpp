// Regions between processes that may not look into each other: the memory is handed over.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "hymn/error.hpp"
#include "tests/unit/region_scene.hpp"

namespace hymn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A member that cannot look into its maker: it is told what the maker has, says where its listener
/// is, and joins. `set_apart` makes it so, in the process that then makes another one, the member.
class Apart {
 public:
  Apart(const std::function<bool()>& set_apart, Duration patience)
      : member_([this, set_apart, patience]() -> std::string {
          if (!set_apart()) return "cannot be set apart";
          // A new PID namespace begins with the next process.
          Child inner([this, patience] { return join_through_listener(patience); });
          return inner.report();
        }) {}

  const Wire& to_member() const { return to_member_; }
  std::string listener() { return from_member_.receive(); }
  std::string report() { return member_.report(); }

 private:
  std::string join_through_listener(Duration patience) {
    const auto listener = DescriptorListener::open();
    from_member_.send(as_text(listener->address()));
    const Bytes ticket = as_bytes(to_member_.receive());
    const auto region = join_region(ticket, small_plan(), 2, 1, *listener, patience);
    region->area(1, 0)[7] = std::byte{42};
    return fmt::format("sees {}", std::to_integer<int>(region->area(0, 0)[3]));
  }

  Wire to_member_;
  Wire from_member_;
  Child member_;
};

/// The maker's side: its region, after `pass_descriptors` has been done.
std::unique_ptr<SharedRegion> share(const RegionMaker& maker, Apart& apart) {
  const Bytes listener = as_bytes(apart.listener());
  maker.pass_descriptors(std::vector<Bytes>{listener});
  auto region = join(maker.ticket(), small_plan(), 2, 0);
  region->area(0, 0)[3] = std::byte{17};
  apart.to_member().send(as_text(maker.ticket()));
  return region;
}

constexpr Duration long_enough = std::chrono::seconds(20);

void expect_shared(const std::function<bool()>& set_apart) {
  const auto maker = RegionMaker::make(small_plan(), 2);
  Apart apart(set_apart, long_enough);
  const auto region = share(*maker, apart);
  EXPECT_EQ(apart.report(), "sees 17");
  EXPECT_EQ(region->area(1, 0)[7], std::byte{42});
}

bool may_unshare(int what) {
  Child child([what] { return unshare(what) == 0 ? "" : "no"; });
  return child.report().empty();
}

TEST(RegionHandover, AcrossPidNamespaces) {
  if (!may_unshare(CLONE_NEWPID)) GTEST_SKIP() << "no PID namespace can be made here";
  expect_shared([] { return unshare(CLONE_NEWPID) == 0; });
}

TEST(RegionHandover, ToAMemberThatMayNotBeLookedInto) {
  expect_shared([] { return prctl(PR_SET_DUMPABLE, 0) == 0; });
}

TEST(RegionHandover, NotWithoutACommonNetworkNamespace) {
  if (!may_unshare(CLONE_NEWPID | CLONE_NEWNET)) GTEST_SKIP() << "no namespaces can be made here";
  const auto maker = RegionMaker::make(small_plan(), 2);
  Apart apart([] { return unshare(CLONE_NEWPID | CLONE_NEWNET) == 0; }, long_enough);
  share(*maker, apart);
  EXPECT_THAT(apart.report(), AllOf(HasSubstr("another network namespace"),
                                    HasSubstr("run the ranks of a host as one user")));
}

TEST(RegionHandover, NotToAnotherUser) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto maker = RegionMaker::make(small_plan(), 2);
  Apart apart([] { return setuid(65534) == 0; }, long_enough);
  share(*maker, apart);
  EXPECT_THAT(apart.report(), HasSubstr("belongs to another user"));
}

TEST(RegionHandover, AMakerThatNeverHandsOverIsNamed) {
  const auto maker = RegionMaker::make(small_plan(), 2);
  Apart apart([] { return prctl(PR_SET_DUMPABLE, 0) == 0; }, std::chrono::milliseconds(50));
  apart.listener();
  apart.to_member().send(as_text(maker->ticket()));
  EXPECT_THAT(apart.report(), AllOf(HasSubstr(fmt::format("process {}", getpid())),
                                    HasSubstr("has not passed its descriptor")));
}

// Whoever knocks first with something else does not keep the right one out.
TEST(RegionHandover, OtherMemoryIsNotTaken) {
  const auto listener = DescriptorListener::open();
  const Descriptor wrong = make_nameless_memory(4096, "wrong");
  const Descriptor right = make_nameless_memory(4096, "right");
  Credentials elsewhere = listener->credentials();
  elsewhere.pid_namespace += 1;
  const Bytes address = listener->address();
  pass_descriptor(wrong, elsewhere, address);
  pass_descriptor(right, elsewhere, address);
  const MemoryKey key = key_of(right);
  EXPECT_EQ(key_of(listener->receive(key, long_enough)).inode, key.inode);
}

TEST(RegionHandover, WhoeverKnocksAndSaysNothingDoesNotProlongTheWait) {
  const auto listener = DescriptorListener::open();
  Bytes address = listener->address();
  Unpacker unpacker(address);
  Credentials::unpack(unpacker);
  const std::string name = unpacker.text();
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), to.sun_path + 1);
  constexpr Duration limit = std::chrono::milliseconds(600);
  const Descriptor memory = make_nameless_memory(4096, "test");
  const auto time_of_one = [&]() -> Duration {
    const Descriptor knocker(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto before = std::chrono::steady_clock::now();
    Child late([&]() -> std::string {
      std::this_thread::sleep_for(limit * 2 / 3);
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      const auto* listener_to = reinterpret_cast<const sockaddr*>(&to);
      return connect(knocker.number(), listener_to, length) == 0 ? "knocked" : "nobody there";
    });
    EXPECT_THROW(listener->receive(key_of(memory), limit), ResourceError);
    const Duration took = std::chrono::steady_clock::now() - before;
    EXPECT_EQ(late.report(), "knocked");
    return took;
  };
  // Whoever loses its core takes longer, but not each time.
  Duration least = time_of_one();
  for (int more = 0; more < 9 && least >= limit * 3 / 2; ++more)
    least = std::min(least, time_of_one());
  EXPECT_LT(least, limit * 3 / 2);
}

TEST(RegionHandover, NobodyIsHandedWhatItCanOpenItself) {
  const auto listener = DescriptorListener::open();
  const Descriptor memory = make_nameless_memory(4096, "test");
  pass_descriptor(memory, listener->credentials(), listener->address());
  EXPECT_THROW(listener->receive(key_of(memory), std::chrono::milliseconds(20)), ResourceError);
}

TEST(RegionHandover, WaysBetweenProcesses) {
  const Credentials here = Credentials::of_this_process();
  ASSERT_FALSE(here.rights.empty());
  EXPECT_EQ(way_between(here, here), WayToMemory::proc);
  const auto with = [&](auto change) {
    Credentials other = here;
    change(other);
    return way_between(here, other);
  };
  EXPECT_EQ(with([](Credentials& s) { ++s.pid_namespace; }), WayToMemory::descriptor_passing);
  EXPECT_EQ(with([](Credentials& s) { s.rights += "?"; }), WayToMemory::descriptor_passing);
  EXPECT_EQ(with([](Credentials& s) { s.rights = ""; }), WayToMemory::descriptor_passing);
  EXPECT_EQ(with([](Credentials& s) {
              ++s.user;
              s.rights += "?";
            }),
            WayToMemory::none);
  EXPECT_EQ(with([](Credentials& s) {
              ++s.user_namespace;
              ++s.user;
            }),
            WayToMemory::descriptor_passing);
  EXPECT_EQ(with([](Credentials& s) {
              ++s.pid_namespace;
              ++s.network_namespace;
            }),
            WayToMemory::none);
  EXPECT_EQ(with([](Credentials& s) { ++s.network_namespace; }), WayToMemory::proc);
}

}  // namespace
}  // namespace hymn::test
