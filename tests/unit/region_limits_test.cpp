// Regions where something is short: they say what, and nobody dies of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "hymn/error.hpp"
#include "p2p/shm/reservation.hpp"
#include "tests/unit/region_scene.hpp"

namespace hymn::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Makes a region with this plan and joins it: "joined", or what was wrong.
std::string try_region(const RegionPlan& plan) {
  const auto maker = RegionMaker::make(plan, 1);
  join(maker->ticket(), plan, 1, 0);
  return "joined";
}

TEST(RegionLimits, DescriptorsRunOut) {
  Child child([] {
    const Limit low(RLIMIT_NOFILE, 3);
    return try_region(small_plan());
  });
  EXPECT_THAT(child.report(), AllOf(HasSubstr("shared memory"), HasSubstr("ulimit -n")));
}

// One more than the maker needs, but not enough to join.
TEST(RegionLimits, DescriptorsRunOutWhileJoining) {
  Child child([]() -> std::string {
    const auto maker = RegionMaker::make(small_plan(), 1);
    const Descriptor next(dup(0));
    const Limit low(RLIMIT_NOFILE, static_cast<rlim_t>(next.number() + 1));
    join(maker->ticket(), small_plan(), 1, 0);
    return "joined";
  });
  EXPECT_THAT(child.report(), AllOf(HasSubstr("shared memory"), HasSubstr("ulimit -n")));
}

TEST(RegionLimits, SizeOfFilesIsLimited) {
  Child child([] {
    const Limit low(RLIMIT_FSIZE, 8192);
    return try_region(small_plan());
  });
  EXPECT_THAT(child.report(), AllOf(HasSubstr("exceed the 8192"), HasSubstr("ulimit -f")));
}

TEST(RegionLimits, AddressSpaceIsLimited) {
  if (address_sanitized) GTEST_SKIP() << "a sanitizer needs the address space for itself";
  Child child([] {
    RegionPlan plan = small_plan();
    plan.add(std::size_t{1} << 32, on_demand);
    const Limit low(RLIMIT_AS, std::size_t{1} << 31);
    return try_region(plan);
  });
  EXPECT_THAT(child.report(), AllOf(HasSubstr("cannot be mapped"), HasSubstr("ulimit -v")));
}

/// A memory cgroup below this process's own, where that may be made.
class SmallCgroup {
 public:
  explicit SmallCgroup(std::size_t bytes) {
    std::ifstream own("/proc/self/cgroup");
    for (std::string line; std::getline(own, line);) {
      const std::size_t memory = line.find(":memory:");
      if (memory != std::string::npos)
        make("/sys/fs/cgroup/memory" + line.substr(memory + 8), "memory.limit_in_bytes", bytes);
      else if (line.starts_with("0::"))
        make("/sys/fs/cgroup" + line.substr(3), "memory.max", bytes);
    }
  }
  ~SmallCgroup() {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  bool made() const { return !path_.empty(); }
  bool enter() const { return put("cgroup.procs", "0"); }

 private:
  void make(const std::string& above, const char* limit_file, std::size_t bytes) {
    std::error_code error;
    if (made()) return;
    path_ = fmt::format("{}/hymn-test-{}", above, getpid());
    if (!std::filesystem::create_directory(path_, error)) {
      path_.clear();
    } else if (!put(limit_file, std::to_string(bytes))) {
      std::filesystem::remove(path_);
      path_.clear();
    }
  }
  bool put(const std::string& file, const std::string& text) const {
    std::ofstream stream(path_ + "/" + file);
    stream << text << std::flush;
    return stream.good();
  }
  std::string path_;
};

// The kernel would kill whoever takes more than its cgroup has.
TEST(RegionLimits, ACgroupLimitsWhatIsTaken) {
  const SmallCgroup cgroup(std::size_t{64} << 20);
  if (!cgroup.made()) GTEST_SKIP() << "no memory cgroup can be made here";
  Child child([&]() -> std::string {
    if (!cgroup.enter()) return "not in the cgroup";
    RegionPlan plan = small_plan();
    const int large = plan.add(std::size_t{200} << 20, on_demand);
    const auto maker = RegionMaker::make(plan, 1);
    const auto region = join(maker->ticket(), plan, 1, 0);
    const auto reserved = region->reserve(large);
    if (reserved.bytes == 0 || reserved.bytes >= std::size_t{64} << 20)
      return fmt::format("{} bytes reserved", reserved.bytes);
    if (reserved.bytes % RegionPlan::page_of_machine() != 0) return "no whole pages";
    // All of it is there: to write it does no harm.
    std::fill_n(region->area(0, large), reserved.bytes, std::byte{1});
    return reserved.shortage;
  });
  EXPECT_THAT(child.report(), AllOf(StartsWith("209715200 bytes of shared memory"),
                                    HasSubstr("cgroup"), HasSubstr("run fewer ranks")));
}

// What a region cannot do without.
TEST(RegionLimits, TooLittleForWhatIsReservedAtOnce) {
  const SmallCgroup cgroup(std::size_t{32} << 20);
  if (!cgroup.made()) GTEST_SKIP() << "no memory cgroup can be made here";
  Child child([&]() -> std::string {
    if (!cgroup.enter()) return "not in the cgroup";
    RegionPlan plan;
    plan.add(std::size_t{100} << 20, at_once);
    return try_region(plan);
  });
  EXPECT_THAT(child.report(), StartsWith("104857600 bytes of shared memory"));
}

TEST(RegionLimits, MoreThanThisHostHas) {
  Child child([]() -> std::string {
    RegionPlan plan;
    plan.add(std::size_t{1} << 45, on_demand);
    const auto maker = RegionMaker::make(plan, 1);
    const auto region = join(maker->ticket(), plan, 1, 0);
    // As of a million ranks that all ask for that much.
    const Descriptor memory = make_nameless_memory(1 << 20, "test");
    const SharedMapping mapping(memory, 1 << 20);
    return reserve_memory(mapping, memory, 0, 1 << 20, 1'000'000'000, Need::some).shortage;
  });
  EXPECT_THAT(child.report(), HasSubstr("0 are available"));
}

/// From now on this system call fails with `error`, where argument `index` is `value`.
bool forbid(long call, int error, unsigned index, unsigned value) {
  const auto argument =
      static_cast<unsigned>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Makes, joins, reserves and writes a region.
std::string use_region() {
  const RegionPlan plan = small_plan();
  const auto maker = RegionMaker::make(plan, 1);
  const auto region = join(maker->ticket(), plan, 1, 0);
  const auto reserved = region->reserve(2);
  if (reserved.bytes != plan.area(2).bytes) return reserved.shortage;
  for (int i = 0; i < 3; ++i) std::fill_n(region->area(0, i), plan.area(i).bytes, std::byte{1});
  return "";
}

TEST(RegionLimits, WithoutMemfdItIsANamelessFile) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm here";
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Child child([&]() -> std::string {
    if (!forbid(SYS_memfd_create, ENOSYS, 1, flags)) return "no filter";
    return use_region();
  });
  EXPECT_EQ(child.report(), "");
}

// Linux before 5.14.
TEST(RegionLimits, WithoutPopulateItAllocatesTheFile) {
  Child child([&]() -> std::string {
    if (!forbid(SYS_madvise, EINVAL, 2, 23)) return "no filter";
    return use_region();
  });
  EXPECT_EQ(child.report(), "");
}

}  // namespace
}  // namespace hymn::test
